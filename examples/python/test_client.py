# To run it: `npm ci` and `npm pack` in the clone, then `npm install` and `npm test` here.
import json
import subprocess
import unittest
from http.client import HTTPException
from urllib.request import Request, urlopen

KEY = "my-secret-key"
SERVER = "node_modules/.bin/petstore-server --port 0 --control-port 0 --log json --api-key"
TOM = {"name": "Tom", "categoryId": 2}


def call(method, url, body=None):
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    content = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, content, headers, method=method), timeout=10) as response:
        return json.loads(response.read() or "null")


def pets_after(url, last):
    """All pets with a greater id. A page has at most 100."""
    page = call("GET", f"{url}?limit=100&after={last}")
    return page + pets_after(url, page[-1]["id"]) if len(page) == 100 else page


def add_pet(url, pet):
    """The code under test: adds a pet, and tries once more if that fails."""
    last = max((one["id"] for one in pets_after(url, 0)), default=0)
    try:
        return call("POST", url, pet)
    except (OSError, HTTPException):
        # It may have been added, and the response lost: a second POST would add it twice.
        found = [one for one in pets_after(url, last) if one["name"] == pet["name"]]
        return found[0] if found else call("POST", url, pet)


class ClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = subprocess.Popen([*SERVER.split(), KEY], stdout=subprocess.PIPE)
        started = json.loads(cls.server.stdout.readline())  # the first line of the log
        cls.pets, cls.controls = started["url"] + "/pets", started["controlUrl"]

    @classmethod
    def tearDownClass(cls):
        cls.server.terminate()
        cls.server.communicate()

    def setUp(self):
        call("POST", f"{self.controls}/reset", [{"name": "Rex", "categoryId": 1}])

    def inject(self, **fault):
        call("POST", f"{self.controls}/faults", fault)

    def test_a_busy_store_is_asked_again(self):
        self.inject(operation="createPet", status=503)
        self.assertEqual(add_pet(self.pets, TOM), {"id": 2, **TOM})
        self.assertEqual(call("GET", f"{self.controls}/faults"), [])

    def test_a_lost_response_does_not_add_the_pet_twice(self):
        self.inject(operation="createPet", hangUp=True, done=True)
        self.assertEqual(add_pet(self.pets, TOM), {"id": 2, **TOM})
        self.assertEqual(len(call("GET", f"{self.controls}/pets")), 2)

    def test_the_request_is_seen(self):
        add_pet(self.pets, TOM)
        [request] = call("GET", f"{self.controls}/requests?count=1&operation=createPet")
        self.assertEqual(json.loads(request["body"]), TOM)


if __name__ == "__main__":
    unittest.main()
