"""Runs unittest cases and writes one JSON line per test, for a runner that speaks another language."""

import json
import sys
import unittest


class JsonLines(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self._failures = {}

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._note(test, f"{subtest._subDescription()}\n{self._exc_info_to_string(err, test)}")

    def addError(self, test, err):
        super().addError(test, err)
        self._note(test, self._exc_info_to_string(err, test))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._note(test, self._exc_info_to_string(err, test))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._note(test, f"skipped: {reason}")

    def stopTest(self, test):
        super().stopTest(test)
        failure = self._failures.get(test.id())
        print(json.dumps({"check": test.shortDescription() or test.id(), "failure": failure}), flush=True)

    def _note(self, test, text):
        self._failures[test.id()] = self._failures.get(test.id(), "") + text


def run():
    """All test cases of the calling script; their first docstring line is their name. sys.argv[1] is the server."""
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    result = JsonLines()
    suite.run(result)
    print(json.dumps({"checks": result.testsRun}), flush=True)
    # A fixture that fails has no test of its own to carry the news.
    if not result.wasSuccessful() and any("setUpClass" in str(test) for test, _ in result.errors):
        sys.exit("\n".join(trace for _, trace in result.errors))
