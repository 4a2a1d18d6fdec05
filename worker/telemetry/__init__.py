"""What an operator sees of a worker.

    observer   the one seam: what is worth telling, and who is told
    watch      tells an observer of one slice of a job
    binding    which job and step the running code belongs to
    stores     a store that tells of its round trips
    logs       one log line an event; formats of log lines, Celery's own among them
    metrics    counters and histograms for Prometheus; gauges, read from the store; their server
    otel       OpenTelemetry spans by the conventions for generative AI
    setup      which of these a worker has, by its settings

Everything but ``setup`` may be imported without the libraries of the extras ``metrics`` and
``otel``; what needs them is imported when a setting asks for it.
"""
