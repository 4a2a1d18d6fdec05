"""Others that run durable agent jobs, measured beside Stepkeeper in one run: make peers.

    load      what a job is, the same for all
    script    what each script below is asked, measures, and prints
    langgraph_postgres, langgraph_redis, dbos_postgres, restate, temporal
              one script a peer, each in a process of its own, in a venv without Stepkeeper
    langgraph_agent   the graph and the savers of the first two
    stored    how many bytes a server keeps
    servers   their servers, in scratch folders, on loopback
    ours      the same figures of Stepkeeper
    contenders   all of them, with the shape that is best for each
    rounds    measures them in turns
    table     the figures as a table

``load``, ``script``, ``stored`` and the scripts run where only ``requirements.txt`` is installed:
they import nothing of ``worker`` and ``api_client``.
"""
