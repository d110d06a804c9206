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


def add_pet(url, pet):
    """The code under test: if it fails, it tries once more. Pets have names of their own."""
    try:
        return call("POST", url, pet)
    except (OSError, HTTPException):
        # The pet may have been added, and the response lost: a second POST would add it twice.
        found = [one for one in call("GET", f"{url}?limit=100") if one["name"] == pet["name"]]
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

    def test_a_busy_store_is_asked_again(self):
        call("POST", f"{self.controls}/faults", {"operation": "createPet", "status": 503})
        self.assertEqual(add_pet(self.pets, TOM), {"id": 2, **TOM})
        # A request is recorded once its response is sent: the client may be faster.
        statuses = []
        while len(statuses) < 3:
            statuses = [one["status"] for one in call("GET", f"{self.controls}/requests")]
        self.assertEqual(statuses, [503, 200, 201])

    def test_a_lost_response_does_not_add_the_pet_twice(self):
        fault = {"operation": "createPet", "hangUp": True, "done": True}
        call("POST", f"{self.controls}/faults", fault)
        self.assertEqual(add_pet(self.pets, TOM), {"id": 2, **TOM})
        self.assertEqual(len(call("GET", f"{self.controls}/pets")), 2)


if __name__ == "__main__":
    unittest.main()
