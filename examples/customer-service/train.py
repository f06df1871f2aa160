"""python train.py [repository]: trains the two classifiers of this example and makes its small database.

The sentences are below: a real service has thousands. Needs scikit-learn and skops."""
import os
import sqlite3
import sys

import skops.io
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

repository = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")

ABOUT_ORDERS = [
    "where is my order 1001",
    "when does order 1002 arrive",
    "has my parcel been sent",
    "track the delivery of order 1003",
    "my order is late",
    "is order 1004 on its way",
    "i want to know the status of my order",
    "the parcel with number 1005 has not arrived",
    "did you send order 1006",
    "what happened to my delivery",
]
ANSWERS = {
    "You can send things back within 30 days.": [
        "how do i return a jacket",
        "can i send it back",
        "what are your rules for returns",
        "i do not like it and want my money back",
    ],
    "We ship to all countries of Europe.": [
        "do you ship to portugal",
        "which countries do you deliver to",
        "can you send it abroad",
        "how much is shipping to norway",
    ],
    "Choose 'I forgot my password' on the page where you log in.": [
        "i forgot my password",
        "how do i reset my password",
        "i cannot log in to my account",
        "my account is locked",
    ],
}
ORDERS = [(1001, "is packed"), (1002, "left our house on Monday"), (1003, "arrives tomorrow"), (1004, "was delivered")]


def folder(model):
    path = os.path.join(repository, model, "1")
    os.makedirs(path, exist_ok=True)
    return path


questions = [(text, answer) for answer, texts in ANSWERS.items() for text in texts]
texts = ABOUT_ORDERS + [text for text, _ in questions]
intents = ["order"] * len(ABOUT_ORDERS) + ["question"] * len(questions)
intent = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(C=10)).fit(texts, intents)
skops.io.dump(intent, os.path.join(folder("intent"), "model.skops"))

nearest = make_pipeline(TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)), KNeighborsClassifier(1, metric="cosine"))
nearest.fit([text for text, _ in questions], [answer for _, answer in questions])
skops.io.dump(nearest, os.path.join(folder("questions"), "model.skops"))

path = os.path.join(folder("orders"), "orders.sqlite")
if os.path.exists(path):
    os.remove(path)
with sqlite3.connect(path) as database:
    database.execute("create table orders (number integer primary key, state text not null)")
    database.executemany("insert into orders values (?, ?)", ORDERS)
database.close()
print("the models are in %s" % repository)
