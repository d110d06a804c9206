import json
import socket
import subprocess
import unittest
from urllib.request import Request, urlopen

from client import add_pet

KEY = "my-secret-key"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


PORT, CONTROL_PORT = free_port(), free_port()
URL = f"http://127.0.0.1:{PORT}/v1"


def control(method, path, body=None):
    """Calls a control of the pet store."""
    content = None if body is None else json.dumps(body).encode()
    request = Request(f"http://127.0.0.1:{CONTROL_PORT}{path}", content, {"content-type": "application/json"}, method=method)
    with urlopen(request) as response:
        return json.loads(response.read() or "null")


def setUpModule():
    global server
    flags = ["--port", str(PORT), "--control-port", str(CONTROL_PORT), "--api-key", KEY, "--log", "off"]
    server = subprocess.Popen(["node_modules/.bin/petstore-server", *flags], stdout=subprocess.PIPE)
    server.stdout.readline()  # once it listens, it says where


def tearDownModule():
    server.terminate()
    server.communicate()


class ClientTest(unittest.TestCase):
    def setUp(self):
        control("POST", "/reset", [{"name": "Rex", "categoryId": 1}])

    def tearDown(self):
        control("DELETE", "/faults")

    def test_a_pet_is_added(self):
        self.assertEqual(add_pet(URL, KEY, {"name": "Tom", "categoryId": 2}), {"id": 2, "name": "Tom", "categoryId": 2})
        self.assertEqual(len(control("GET", "/pets")), 2)

    def test_a_busy_store_is_asked_again(self):
        control("POST", "/faults", {"operation": "createPet", "times": 2, "status": 503})
        add_pet(URL, KEY, {"name": "Tom", "categoryId": 2})
        requests = control("GET", "/requests?operation=createPet&count=3&wait=5")
        self.assertEqual([request["status"] for request in requests], [503, 503, 201])


if __name__ == "__main__":
    unittest.main()
