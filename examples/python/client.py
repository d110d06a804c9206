"""The code under test: adds a pet, and tries again a few times while the store is busy."""

import json
import time
from urllib.error import HTTPError
from urllib.request import Request, urlopen

ATTEMPTS = 4
LONGEST_WAIT = 10  # seconds


def add_pet(url, key, pet):
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    request = Request(f"{url}/pets", json.dumps(pet).encode(), headers)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with urlopen(request, timeout=10) as response:
                return json.load(response)
        except HTTPError as error:
            with error:
                seconds = seconds_to_wait(error, attempt)
                is_busy = error.code in (429, 503)
                if not is_busy or attempt == ATTEMPTS or seconds > LONGEST_WAIT:
                    raise
        time.sleep(seconds)


def seconds_to_wait(error, attempt):
    retry_after = error.headers.get("retry-after")
    if retry_after is None:
        return 0.1 * 2**attempt
    return int(retry_after) if retry_after.isdigit() else float("inf")  # it can be a date
