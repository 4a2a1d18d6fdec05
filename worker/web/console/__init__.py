"""The console: pages for people, rendered here, readable without JavaScript.

words      every sentence of ours, in English and German: of pages in sentences, of jobs in
           job_sentences
visitors   sessions, languages, and the token that every form carries
story      a trace as a conversation
timeline   a job's time as a picture
budgets    what a job has used of what it may
forms      fields out of a JSON schema, and values out of what was typed
decisions  the forms that a pause asks for, and the signals that they become
pages      what is shown of one job
filters    what visitors choose above lists
lists      what is shown of many: the inbox, lists, workers
flow       shares, limits and backlogs, and what is used of them
bulk       one decision about many pauses
acts       what is done
live       "look again", and the model's words as they come, as server-sent events
templates  Jinja, where everything from outside is escaped and made visible
"""
