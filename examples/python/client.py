"""The code under test: adds a pet, and tries again when the store is busy."""

import json
from urllib.error import HTTPError
from urllib.request import Request, urlopen


def add_pet(url, key, pet):
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    request = Request(f"{url}/pets", json.dumps(pet).encode(), headers)
    try:
        with urlopen(request) as response:
            return json.load(response)
    except HTTPError as error:
        with error:
            if error.code != 503:
                raise
        return add_pet(url, key, pet)
