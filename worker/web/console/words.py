"""Every sentence of the console, in English and German."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from worker.rendering.texts import duration as short_duration

Language = Literal["en", "de"]
LANGUAGES: tuple[Language, ...] = ("en", "de")
NAMES: dict[Language, str] = {"en": "English", "de": "Deutsch"}

# Each: English, German.
WORDS: dict[str, tuple[str, str]] = {
    # everywhere
    "title": ("Stepkeeper", "Stepkeeper"),
    "skip": ("Skip to the content", "Zum Inhalt springen"),
    "nav": ("Lists", "Listen"),
    "inbox": ("Inbox", "Posteingang"),
    "workers": ("Workers", "Worker"),
    "logout": ("Log out", "Abmelden"),
    "language": ("Language", "Sprache"),
    "signed_in": ("Signed in as {name}", "Angemeldet als {name}"),
    "live": ("live", "live"),
    "stale": ("not connected", "nicht verbunden"),
    "all": ("all", "alle"),
    "yes": ("yes", "ja"),
    "no": ("no", "nein"),
    "none": ("none", "keine"),
    "just_now": ("just now", "gerade eben"),
    "ago": ("{time} ago", "vor {time}"),
    "in_time": ("in {time}", "in {time}"),
    "overdue": ("overdue", "überfällig"),
    "back": ("Back", "Zurück"),
    # login
    "login": ("Log in", "Anmelden"),
    "login_title": ("Log in to the desk", "Am Schreibtisch anmelden"),
    "login_key": ("API key", "API-Schlüssel"),
    "login_key_help": (
        "It begins with sk_. Whoever runs Stepkeeper makes one for you.",
        "Er beginnt mit sk_. Wer Stepkeeper betreibt, erstellt ihn für dich.",
    ),
    "login_name": ("Your name", "Dein Name"),
    "login_name_help": (
        "Stands beside your decisions, with the name of the key.",
        "Steht neben deinen Entscheidungen, mit dem Namen des Schlüssels.",
    ),
    "login_wrong": ("This key is not valid.", "Dieser Schlüssel gilt nicht."),
    # lists
    "status_paused": ("needs a person", "braucht einen Menschen"),
    "status_queued": ("queued", "in der Schlange"),
    "status_running": ("running", "läuft"),
    "status_waiting": ("waiting", "wartet"),
    "status_succeeded": ("succeeded", "gelungen"),
    "status_failed": ("failed", "gescheitert"),
    "status_cancelled": ("cancelled", "abgebrochen"),
    "status_poison": ("poison", "in Quarantäne"),
    "list_running": ("Running", "Laufend"),
    "list_waiting": ("Waiting", "Wartend"),
    "list_queued": ("Queued", "In der Schlange"),
    "list_succeeded": ("Succeeded", "Gelungen"),
    "list_failed": ("Failed", "Gescheitert"),
    "list_cancelled": ("Cancelled", "Abgebrochen"),
    "list_poison": ("Poison", "Quarantäne"),
    "explain_poison": (
        (
            "Their workers died again and again at the same step. Release one to let it go on "
            "under a new id from where it stood."
        ),
        (
            "Ihre Worker sind immer wieder am selben Schritt gestorben. Gib einen frei, dann geht "
            "er unter neuer Nummer dort weiter, wo er stand."
        ),
    ),
    "explain_waiting": (
        "They go on by themselves: after a pause, or when another job has ended.",
        "Sie gehen von selbst weiter: nach einer Pause, oder wenn ein anderer Auftrag fertig ist.",
    ),
    "empty_inbox": ("Nobody is waited for.", "Auf niemanden wird gewartet."),
    "empty_inbox_more": (
        "When a job needs a person, it appears here by itself.",
        "Sobald ein Auftrag einen Menschen braucht, erscheint er hier von selbst.",
    ),
    "empty_list": ("There is no such job.", "Es gibt keinen solchen Auftrag."),
    "filter": ("Filter", "Filtern"),
    "filter_agent": ("Agent", "Agent"),
    "filter_label": ("Label", "Etikett"),
    "filter_kind": ("Kind", "Art"),
    "filter_age": ("Waiting for", "Wartet seit"),
    "filter_order": ("Order", "Reihenfolge"),
    "filter_reset": ("Show all", "Alle zeigen"),
    "age_any": ("any time", "beliebig"),
    "age_3600": ("an hour or more", "einer Stunde oder länger"),
    "age_86400": ("a day or more", "einem Tag oder länger"),
    "age_604800": ("a week or more", "einer Woche oder länger"),
    "order_oldest": ("longest waiting first", "am längsten wartend zuerst"),
    "order_newest": ("newest first", "neueste zuerst"),
    "order_deadline": ("deadline first", "nach Frist"),
    "next_page": ("Next page", "Nächste Seite"),
    "first_page": ("First page", "Erste Seite"),
    "found": ("{count} found", "{count} gefunden"),
    "release": ("Release", "Freigeben"),
    # kinds of pauses
    "kind_hand_to_human": ("Question", "Frage"),
    "kind_approval": ("Approval", "Freigabe"),
    "kind_budget": ("Budget", "Budget"),
    "kind_repeated_action": ("Repetition", "Wiederholung"),
    "kind_model_error": ("Model error", "Modellfehler"),
    "kind_unknown_outcome": ("In doubt", "Ungewiss"),
    "kind_version_change": ("New version", "Neue Version"),
    "kind_operator": ("Paused", "Angehalten"),
    "asks_hand_to_human": ("The agent asks you", "Der Agent fragt dich"),
    "asks_approval": ("May the agent do this?", "Darf der Agent das tun?"),
    "asks_budget": ("A budget is used up", "Ein Budget ist aufgebraucht"),
    "asks_repeated_action": (
        "The agent does the same thing again and again",
        "Der Agent tut immer wieder dasselbe",
    ),
    "asks_model_error": ("The model cannot be asked", "Das Modell antwortet nicht"),
    "asks_unknown_outcome": ("Did this happen?", "Ist das geschehen?"),
    "asks_version_change": ("The agent's code has changed", "Der Code des Agenten ist neu"),
    "asks_operator": ("Somebody paused this job", "Jemand hat diesen Auftrag angehalten"),
    # a job
    "job": ("Job", "Auftrag"),
    "task": ("Task", "Aufgabe"),
    "agent": ("Agent", "Agent"),
    "labels": ("Labels", "Etiketten"),
    "tenant": ("Tenant", "Mandant"),
    "created": ("Created", "Angenommen"),
    "worker": ("Worker", "Worker"),
    "parent": ("Part of", "Teil von"),
    "children": ("Sub-jobs", "Teilaufträge"),
    "deadline": ("Deadline", "Frist"),
    "waiting_since": ("Waiting", "Wartet"),
    "answer_is": ("Answer", "Antwort"),
    "failure_is": ("Failure", "Fehler"),
    "trace": ("What happened", "Was geschah"),
    "facts": ("Facts", "Angaben"),
    "step": ("Step {number}", "Schritt {number}"),
    "in_progress": ("in progress …", "in Arbeit …"),
    "awaits_person": ("waits for a person", "wartet auf einen Menschen"),
    "not_run": ("not run", "nicht ausgeführt"),
    "cut": ("cut from {count} characters", "gekürzt von {count} Zeichen"),
    "tokens": ("{count} tokens", "{count} Tokens"),
    "about_tokens": ("about {count} tokens", "etwa {count} Tokens"),
    "show_more": ("Show all", "Alles zeigen"),
    "earlier": ("Earlier steps: {count}", "Frühere Schritte: {count}"),
    "note_claimed": ("A worker took it up: {worker}", "Ein Worker hat übernommen: {worker}"),
    "note_retaken": (
        "Taken over by {worker}: the attempt before broke off",
        "Übernommen von {worker}: der Versuch davor ist abgebrochen",
    ),
    "note_released": ("Handed back to the queue", "Zurück in die Schlange"),
    "note_version": (
        "The agent changed from {before} to {now}",
        "Der Agent wurde von {before} zu {now} geändert",
    ),
    "note_retry": (
        "The model failed: {text}. Attempt {attempt}, the next one in {time}",
        "Das Modell versagte: {text}. Versuch {attempt}, der nächste in {time}",
    ),
    "note_held_back": (
        "Waits its turn at a limit: {text}. It asks again in {time}",
        "Wartet an einer Grenze, bis es an der Reihe ist: {text}. Der nächste Versuch in {time}",
    ),
    "note_summary": (
        "Older messages were summed up: {text}",
        "Ältere Nachrichten wurden zusammengefasst: {text}",
    ),
    "note_compacted": (
        "Too long for the model, which is shown {shown} of {all} messages",
        "Zu lang für das Modell; es sieht {shown} von {all} Nachrichten",
    ),
    "note_started": (
        "Begun; it must not run twice",
        "Begonnen; es darf nicht zweimal laufen",
    ),
    "note_awaiting": ("Waits for {jobs}", "Wartet auf {jobs}"),
    "note_delegated": ("Handed on to {jobs}", "Weitergegeben an {jobs}"),
    "note_told": ("The model was told: {text}", "Dem Modell wurde gesagt: {text}"),
    "note_cancel": ("{by} wants it to end", "{by} will, dass er endet"),
    "note_finished": ("Finished", "Fertig"),
    "note_failed": ("Failed", "Gescheitert"),
    "note_cancelled": ("Cancelled", "Abgebrochen"),
    "note_reminder": ("Somebody was reminded", "Jemand wurde erinnert"),
    "note_escalated": ("Handed on to: {labels}", "Weitergegeben an: {labels}"),
    "note_message": ("{by}: {text}", "{by}: {text}"),
    "note_pause_wanted": ("{by} wants it to pause", "{by} will, dass er anhält"),
    "note_forked": ("Goes on from {job}", "Geht weiter von {job}"),
    "decided": ("{what} by {by}", "{what} durch {by}"),
    "after_waiting": ("after {time}", "nach {time}"),
    "nobody": ("somebody who gave no name", "jemand ohne Namen"),
    "by_deadline": ("the deadline", "die Frist"),
    # the picture
    "timeline": ("Time", "Zeit"),
    "time_model": ("Model", "Modell"),
    "time_tool": ("Tools", "Werkzeuge"),
    "time_person": ("Waiting for people", "Warten auf Menschen"),
    "time_backoff": ("Waiting for the model", "Warten auf das Modell"),
    "time_queue": ("In the queue", "In der Schlange"),
    "time_jobs": ("Waiting for sub-jobs", "Warten auf Teilaufträge"),
    "timeline_note": (
        "Hatched waiting is not to scale.",
        "Schraffiertes Warten ist nicht maßstäblich.",
    ),
    # budgets
    "budgets": ("Budgets", "Budgets"),
    "budget_steps": ("Steps", "Schritte"),
    "budget_tokens": ("Tokens", "Tokens"),
    "budget_cost": ("Money", "Geld"),
    "budget_active_s": ("Seconds of work", "Sekunden Arbeit"),
    "budget_of": ("{used} of {limit}", "{used} von {limit}"),
    "budget_granted": ("{count} added by people", "{count} von Menschen gewährt"),
    # deciding
    "decide": ("Your decision", "Deine Entscheidung"),
    "other_ways": ("Other ways", "Andere Wege"),
    "not_yours": (
        "This waits for somebody with another label: {labels}",
        "Das wartet auf jemanden mit einem anderen Etikett: {labels}",
    ),
    "no_review": (
        "Your key may look, but not decide.",
        "Dein Schlüssel darf zusehen, aber nicht entscheiden.",
    ),
    "problem_before": (
        "The last answer could not be used: {text}",
        "Die letzte Antwort war nicht zu brauchen: {text}",
    ),
    "proposed": ("Proposed", "Vorgeschlagen"),
    "note_label": ("Note", "Notiz"),
    "note_help": (
        "Stands in the trace; the model does not read it.",
        "Steht im Verlauf; das Modell liest sie nicht.",
    ),
    "act_answer": ("Answer", "Antworten"),
    "act_approve": ("Approve", "Freigeben"),
    "act_reject": ("Reject", "Ablehnen"),
    "act_approve_all": ("Approve all", "Alle freigeben"),
    "act_reject_all": ("Reject all", "Alle ablehnen"),
    "act_decide": ("Decide", "Entscheiden"),
    "act_extend": ("Extend", "Erhöhen"),
    "act_finish": ("Finish the job", "Auftrag abschließen"),
    "act_retry": ("Go on", "Weitermachen"),
    "act_happened": ("It happened", "Es ist geschehen"),
    "act_did_not_happen": ("It did not happen", "Es ist nicht geschehen"),
    "act_edit": ("Take over", "Übernehmen"),
    "act_fail": ("Let it fail", "Scheitern lassen"),
    "act_cancel": ("Cancel the job", "Auftrag abbrechen"),
    "act_message": ("Tell the agent something", "Dem Agenten etwas sagen"),
    "act_pause": ("Pause the job", "Auftrag anhalten"),
    "did_answer": ("Answered", "Beantwortet"),
    "did_approve": ("Approved", "Freigegeben"),
    "did_reject": ("Rejected", "Abgelehnt"),
    "did_decide": ("Decided", "Entschieden"),
    "did_extend": ("Extended", "Erhöht"),
    "did_finish": ("Finished", "Abgeschlossen"),
    "did_retry": ("Sent on", "Weitergeschickt"),
    "did_happened": ("Confirmed", "Bestätigt"),
    "did_did_not_happen": ("Denied", "Verneint"),
    "did_edit": ("Taken over", "Übernommen"),
    "did_fail": ("Failed", "Scheitern gelassen"),
    "did_cancel": ("Cancelled", "Abgebrochen"),
    "hint_approve": (
        "Change what you like before you approve.",
        "Ändere vor dem Freigeben, was du willst.",
    ),
    "hint_edit": (
        (
            "Answer in the tools' place, or tell the model something; the calls you answer "
            "are not run."
        ),
        (
            "Antworte anstelle der Werkzeuge oder sag dem Modell etwas; was du beantwortest, "
            "läuft nicht."
        ),
    ),
    "hint_finish": (
        "The job ends with this answer; the model is not asked again.",
        "Der Auftrag endet mit dieser Antwort; das Modell wird nicht mehr gefragt.",
    ),
    "hint_did_not_happen": ("It is run now.", "Es wird jetzt ausgeführt."),
    "hint_cancel": ("The job ends without an answer.", "Der Auftrag endet ohne Antwort."),
    "hint_pause": (
        "It pauses at its next step.",
        "Er hält beim nächsten Schritt an.",
    ),
    "field_value": ("Your answer", "Deine Antwort"),
    "field_reason": ("Reason, which the model reads", "Grund, den das Modell liest"),
    "field_fail_reason": ("Reason", "Grund"),
    "field_amount": ("How much more", "Wie viel mehr"),
    "field_answer": ("Answer of the job", "Antwort des Auftrags"),
    "field_result": ("What came of it", "Was daraus wurde"),
    "field_message": ("Message to the model", "Nachricht an das Modell"),
    "field_text": ("Message", "Nachricht"),
    "field_approve_this": ("Approve {tool}", "{tool} freigeben"),
    "pick": ("please choose", "bitte wählen"),
    "changed_meanwhile": (
        "Something has happened to this job while you were writing.",
        "Während du schreibst, ist mit diesem Auftrag etwas geschehen.",
    ),
    "reload": ("Look at it", "Ansehen"),
    "leave_open": ("leave open", "offenlassen"),
    "not_set": ("not set", "nicht gesetzt"),
    "as_json": ("JSON", "JSON"),
    "required": ("required", "nötig"),
    "optional": ("optional", "freiwillig"),
    # what came of it
    "done": ("Accepted: {what}. The job goes on.", "Angenommen: {what}. Der Auftrag geht weiter."),
    "done_finish": ("The job ends with your answer.", "Der Auftrag endet mit deiner Antwort."),
    "done_fail": ("The job ends as failed.", "Der Auftrag endet als gescheitert."),
    "done_cancel": ("The job ends.", "Der Auftrag endet."),
    "done_message": ("The agent reads it next.", "Der Agent liest es als Nächstes."),
    "done_pause": ("It pauses at its next step.", "Er hält beim nächsten Schritt an."),
    "first_was": (
        "{by} was first. {what}, {time}; your answer has changed nothing.",
        "{by} war zuerst da. {what}, {time}; deine Antwort hat nichts geändert.",
    ),
    "refused": ("This was not accepted.", "Das wurde nicht angenommen."),
    "error_number": ("Give a number.", "Gib eine Zahl ein."),
    "error_whole": ("Give a whole number.", "Gib eine ganze Zahl ein."),
    "error_json": ("This is no JSON: {text}", "Das ist kein JSON: {text}"),
    "error_missing": ("Something belongs here.", "Hier fehlt etwas."),
    "error_choice": ("Choose one of these.", "Wähle eines davon."),
    "error_nothing": ("Decide at least one of them.", "Entscheide wenigstens eines davon."),
    "error_csrf": (
        "The form was too old, or came from elsewhere. Please try again.",
        "Das Formular war zu alt oder kam von woanders. Bitte noch einmal.",
    ),
    "error_title": ("That did not work", "Das ging nicht"),
    "error_job_not_found": ("There is no such job.", "Es gibt keinen solchen Auftrag."),
    "error_not_found": ("There is nothing here.", "Hier ist nichts."),
    "error_not_allowed": (
        "Your key may not do that.",
        "Dein Schlüssel darf das nicht.",
    ),
    "error_unavailable": (
        "The store cannot be reached. Please try again in a moment.",
        "Der Speicher ist nicht zu erreichen. Bitte gleich noch einmal.",
    ),
    "error_too_many": ("That was too often. Wait a moment.", "Das war zu oft. Warte kurz."),
    "error_other": ("Something went wrong.", "Etwas ist schiefgegangen."),
    # workers
    "workers_explain": (
        "Workers that hold jobs now. One without a job is not listed.",
        "Worker, die gerade Aufträge halten. Wer keinen hat, steht nicht hier.",
    ),
    "workers_none": ("No worker holds a job.", "Kein Worker hält einen Auftrag."),
    "agents": ("Agents", "Agenten"),
    "agents_none": ("No worker has announced an agent.", "Kein Worker hat Agenten gemeldet."),
    "agent_version": ("Version", "Version"),
    "agent_queue": ("Queue", "Schlange"),
    "agent_seen": ("Announced", "Gemeldet"),
    "agent_limits": ("Limits", "Grenzen"),
    "jobs_by_status": ("Jobs", "Aufträge"),
    "holds": ("{count} jobs", "{count} Aufträge"),
    "holds_one": ("1 job", "1 Auftrag"),
    "steps_done": ("{count} steps", "{count} Schritte"),
}

Say = Callable[..., str]


def speak(language: Language) -> Say:
    """A function that says a sentence by its name; its fields are keyword arguments."""
    index = LANGUAGES.index(language)

    def say(name: str, /, **fields: object) -> str:
        return WORDS[name][index].format(**fields)

    return say


def status_word(say: Say, status: str) -> str:
    """A job's status."""
    return say(f"status_{status}")


def known(name: str) -> bool:
    """Whether there is a sentence of this name."""
    return name in WORDS


def number(value: float, language: Language) -> str:
    """A number with the separators of the language: ``1,234.5`` or ``1.234,5``."""
    text = f"{value:,.4f}".rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}"
    return text.translate(str.maketrans(",.", ".,")) if language == "de" else text


def span(ms: float, language: Language) -> str:
    """A span of time: ``3.4 s``, ``2 d 4 h``; in German ``3,4 s`` and ``2 T 4 Std``."""
    text = short_duration(max(0, ms))
    if language == "en":
        return text
    units = {"d": "T", "h": "Std", "min": "Min", "s": "s", "ms": "ms"}
    return " ".join(units.get(part, part.replace(".", ",")) for part in text.split(" "))


def chosen(accept_language: str, cookie: str | None) -> Language:
    """The language of a visitor: the one chosen, else the first that the browser asks for."""
    for language in LANGUAGES:
        if cookie == language:
            return language
    for wish in _wishes(accept_language):
        for language in LANGUAGES:
            if wish.partition("-")[0] == language:
                return language
    return "en"


def _wishes(header: str) -> list[str]:
    """The languages of an ``Accept-Language`` header, the most wanted first."""
    weighed: list[tuple[float, str]] = []
    for part in header[:500].split(","):
        name, _, weight = part.partition(";q=")
        try:
            weighed.append((-float(weight or 1), name.strip().lower()))
        except ValueError:
            continue
    return [name for weight, name in sorted(weighed, key=lambda item: item[0]) if weight < 0]
