"""locust -f deploy/load/locustfile.py --headless --users 20 --spawn-rate 20 --run-time 30s --host http://localhost:8000"""

from locust import HttpUser, constant, task

DATA = list(range(16))
BODY = {
    "inputs": [
        {"name": name, "shape": [1, 16], "datatype": "INT32", "data": DATA}
        for name in ("INPUT0", "INPUT1")
    ]
}


class Client(HttpUser):
    wait_time = constant(0.1)

    @task
    def infer(self):
        with self.client.post("/v2/models/simple/infer", json=BODY, catch_response=True) as answer:
            if answer.status_code != 200:
                answer.failure(f"status {answer.status_code}: {answer.text[:200]}")
            elif answer.json()["outputs"][0]["data"][15] != 30:
                answer.failure("the sums are wrong")
