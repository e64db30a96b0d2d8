"""Prints the metrics that only libtpu's SDK has, one JSON line every few seconds, for `sdk-helper.ts`."""

import json
import time

from libtpu.sdk import tpumonitoring

PERIOD_S = 5
METRICS = ("tensorcore_util", "ici_link_health", "tpu_throttle_score")


def read(name: str) -> list[str]:
    try:
        return [str(value) for value in tpumonitoring.get_metric(name).data()]
    except Exception:
        return []


while True:
    print(json.dumps({name: read(name) for name in METRICS}), flush=True)
    time.sleep(PERIOD_S)
