# To run it: in the clone, run `npm ci` and then `npm pack`. In this folder, run
# `npm install --save-dev ../../petstore-server-1.0.0.tgz` and then `npm test`.
import json
import pathlib
import subprocess
import threading
import unittest
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from client import add_pet

KEY = "my-secret-key"
SERVER = pathlib.Path(__file__).with_name("node_modules") / ".bin/petstore-server"
FLAGS = "--host 127.0.0.1 --port 0 --control-port 0 --log json --drain 0 --api-key"
TOM = {"name": "Tom", "categoryId": 2}


def setUpModule():
    global server, url, control_url
    server = subprocess.Popen([SERVER, *FLAGS.split(), KEY], stdout=subprocess.PIPE)
    line = server.stdout.readline()  # once it listens, the log says where
    assert line, "the server did not start: standard error says why"
    started = json.loads(line)
    url, control_url = started["url"], started["controlUrl"]
    threading.Thread(target=server.stdout.read, daemon=True).start()  # keeps the pipe empty


def tearDownModule():
    server.terminate()
    server.wait()
    server.stdout.close()


def control(method, path, body=None):
    """Calls a control of the pet store. Of a new fault, returns the address."""
    content = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    try:
        with urlopen(Request(control_url + path, content, headers, method=method)) as response:
            return response.headers["location"] or json.loads(response.read() or "null")
    except HTTPError as error:  # its message says what was expected, or what came instead
        with error:
            raise AssertionError(json.load(error)["message"]) from None


def inject(**fault):
    return control("POST", "/faults", fault)


def hits(fault):
    return control("GET", fault)["hits"]


class ClientTest(unittest.TestCase):
    def setUp(self):
        control("POST", "/reset", [{"name": "Rex", "categoryId": 1}])  # drops faults, too

    def tearDown(self):
        control("GET", "/verify")  # fails if a fault is still to come, or if a request had violations

    def test_a_pet_is_added(self):
        self.assertEqual(add_pet(url, KEY, TOM), {"id": 2, **TOM})
        self.assertEqual(len(control("GET", "/pets")), 2)

    def test_a_busy_store_is_asked_again(self):
        fault = inject(operation="createPet", times=2, status=503)
        add_pet(url, KEY, TOM)
        self.assertEqual(hits(fault), 2)
        self.assertEqual(len(control("GET", "/pets")), 2)

    def test_a_store_that_stays_busy_is_asked_four_times(self):
        fault = inject(operation="createPet", times="always", status=503, retryAfter=0)
        self.assertRaises(HTTPError, add_pet, url, KEY, TOM)
        self.assertEqual(hits(fault), 4)

    def test_a_store_that_asks_for_an_hour_is_not_asked_again(self):
        inject(operation="createPet", status=429, retryAfter=3600)
        self.assertRaises(HTTPError, add_pet, url, KEY, TOM)
        self.assertEqual(len(control("GET", "/requests")), 1)


if __name__ == "__main__":
    unittest.main()
