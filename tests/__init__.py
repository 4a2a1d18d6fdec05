"""``unit`` needs no network, ``integration`` real servers, ``acceptance`` real workers."""
