"""The human desk on the web: an HTTP API for programs and a console for people.

    app         puts the parts together into one ASGI application
    settings    what the server can be told from outside
    parts       what requests share: the client, the keys, the streams
    keys        API keys, stored hashed in Redis
    callers     who is asking, and what they may see and do
    desk        jobs as one caller may see and decide them
    operators_desk  the operators' part of it: shares, limits, backlogs, the quarantine
    tail        wakes everybody who follows a stream, with one connection for all
    limits      a token bucket for each key, in Redis
    guards      size limits and security headers, around everything
    problems    errors as ``application/problem+json``
    shapes      requests and answers of the API
    documents   what the OpenAPI says of every operation
    api         the routes under ``/v1``
    console     the pages for people

Needs the extra ``web``; nothing outside of this package imports it, but ``stepkeeper serve``.
"""
