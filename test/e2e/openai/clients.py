"""The official client of OpenAI against a server with the models of test/fixtures/openai. Each function is a
check; the first argument is the base URL."""

import json
import sys
import traceback

import openai

url = sys.argv[1]
client = openai.OpenAI(base_url=url, api_key="k", max_retries=0)
TOOL = {"type": "function", "function": {"name": "add", "description": "Adds", "parameters": {"type": "object", "properties": {"a": {"type": "number"}}}}}
CALL = '<tool_call>{"name": "add", "arguments": {"a": 4}}</tool_call>'


def say(text):
    return [{"role": "user", "content": "say:" + json.dumps(text)}]


def models():
    assert "toy" in [model.id for model in client.models.list()]
    assert client.models.retrieve("toy").id == "toy"


def chat():
    answer = client.chat.completions.create(model="toy", messages=say("Hello there friend"))
    assert answer.choices[0].message.content == "Hello there friend", answer
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens == 3
    assert answer.system_fingerprint == "toy/1"


def chat_streams():
    chunks = list(client.chat.completions.create(model="toy", messages=say("Hello there friend"), stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].delta.content for chunk in chunks[1:4]] == ["Hello", " there", " friend"], chunks
    assert chunks[4].choices[0].finish_reason == "stop"
    assert chunks[5].choices == [] and chunks[5].usage.completion_tokens == 3
    with client.chat.completions.stream(model="toy", messages=say("a b c")) as stream:
        assert "content.done" in [event.type for event in stream]
        assert stream.get_final_completion().choices[0].message.content == "a b c"


def several_choices():
    answer = client.chat.completions.create(model="toy", messages=[{"role": "user", "content": "x"}], n=3, seed=5)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in answer.choices}) == 3
    chunks = client.chat.completions.create(model="toy", messages=say("a b"), n=2, stream=True)
    texts = ["", ""]
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == ["a b", "a b"], texts


def limits_of_length():
    answer = client.chat.completions.create(model="toy", messages=say("a b c d"), max_completion_tokens=2)
    assert answer.choices[0].message.content == "a b" and answer.choices[0].finish_reason == "length"
    answer = client.chat.completions.create(model="toy", messages=say("a b STOP c"), stop=["STOP"])
    assert answer.choices[0].message.content == "a b " or answer.choices[0].message.content == "a b"


def logprobs():
    answer = client.chat.completions.create(model="toy", messages=say("a b"), logprobs=True, top_logprobs=2)
    content = answer.choices[0].logprobs.content
    assert [token.token for token in content] == ["a", " b"] and len(content[0].top_logprobs) == 2
    answer = client.completions.create(model="toy", prompt='say:"a b"', logprobs=1)
    assert answer.choices[0].logprobs.tokens == ["a", " b"] and answer.choices[0].logprobs.text_offset == [0, 1]
    chunks = list(client.chat.completions.create(model="toy", messages=say("a b"), logprobs=True, stream=True))
    assert [token.token for chunk in chunks for token in (chunk.choices[0].logprobs.content if chunk.choices[0].logprobs else [])] == ["a", " b"]


def completions():
    answer = client.completions.create(model="toy", prompt=['say:"one"', 'say:"two"'], n=2)
    assert [choice.text for choice in answer.choices] == ["one", "one", "two", "two"]
    assert client.completions.create(model="toy", prompt='say:"x"', echo=True).choices[0].text == 'say:"x"x'
    assert "".join(chunk.choices[0].text for chunk in client.completions.create(model="toy", prompt='say:"a b"', stream=True)) == "a b"


def tools():
    answer = client.chat.completions.create(model="toy", messages=say("So: " + CALL), tools=[TOOL])
    call = answer.choices[0].message.tool_calls[0]
    assert answer.choices[0].finish_reason == "tool_calls" and call.function.name == "add" and json.loads(call.function.arguments) == {"a": 4}
    stream = client.chat.completions.create(model="toy", messages=say(CALL), tools=[TOOL], stream=True)
    calls = [call for chunk in stream for call in (chunk.choices[0].delta.tool_calls or [])]
    assert calls[0].function.name == "add" and "".join(call.function.arguments for call in calls) == '{"a": 4}'
    for more, count in (({}, 2), ({"parallel_tool_calls": False}, 1)):
        twice = client.chat.completions.create(model="toy", messages=say(CALL + " " + CALL), tools=[TOOL], **more)
        assert len(twice.choices[0].message.tool_calls) == count
    forced = client.chat.completions.create(model="toy", messages=say('{"a": 1}'), tools=[TOOL], tool_choice={"type": "function", "function": {"name": "add"}})
    assert forced.choices[0].message.tool_calls[0].function.arguments == '{"a": 1}'
    more = [*say("4"), {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "c", "content": "4"}]
    assert client.chat.completions.create(model="toy", messages=more, tools=[TOOL]).choices[0].message.content == "4"


def reasoning():
    message = client.chat.completions.create(model="toy", messages=say("<think>hm</think>\nyes")).choices[0].message
    assert message.content == "yes" and message.reasoning_content == "hm"


def structured():
    from pydantic import BaseModel

    class Answer(BaseModel):
        ok: bool

    assert client.chat.completions.parse(model="toy", messages=[{"role": "user", "content": "?"}], response_format=Answer).choices[0].message.parsed.ok
    shown = client.chat.completions.create(model="toy", messages=[{"role": "user", "content": "show sampling"}], response_format={"type": "json_object"}, temperature=0, max_tokens=100)
    assert json.loads(shown.choices[0].message.content) == {"temperature": 0, "json_schema": {"type": "object"}, "max_tokens": 100}


def embeddings():
    answer = client.embeddings.create(model="toy", input=["a", "b"])
    assert len(answer.data) == 2 and len(answer.data[0].embedding) == 8
    plain = client.embeddings.create(model="toy", input=["a", "b"], encoding_format="float")
    assert plain.data[1].embedding == answer.data[1].embedding
    short = client.embeddings.create(model="toy", input="a", dimensions=3).data[0].embedding
    assert len(short) == 3 and abs(sum(x * x for x in short) - 1) < 1e-5


def responses():
    answer = client.responses.create(model="toy", input='say:"Hello there"')
    assert answer.output_text == "Hello there" and answer.status == "completed" and answer.usage.output_tokens == 2
    with client.responses.stream(model="toy", input='say:"a b"', instructions="be kind") as stream:
        kinds = [event.type for event in stream]
        assert kinds[0] == "response.created" and kinds[-1] == "response.completed" and kinds.count("response.output_text.delta") == 2
        assert stream.get_final_response().output_text == "a b"
    called = client.responses.create(model="toy", input="say:" + json.dumps(CALL), tools=[{"type": "function", "name": "add", "parameters": {}}])
    assert called.output[-1].type == "function_call" and called.output[-1].arguments == '{"a": 4}'
    assert client.responses.create(model="toy", input='say:"a b c"', max_output_tokens=1).incomplete_details.reason == "max_output_tokens"


def refused(kind, make, param=None):
    try:
        make()
    except kind as error:
        assert error.body["message"] and error.param == param, error.body
        return error
    raise AssertionError("not refused")


def errors():
    ask = client.chat.completions.create
    unknown = refused(openai.NotFoundError, lambda: ask(model="none", messages=say("x")))
    assert unknown.code == "model_not_found"
    refused(openai.BadRequestError, lambda: ask(model="toy", messages=[{"role": "boss", "content": "x"}]), "messages[0].role")
    refused(openai.BadRequestError, lambda: ask(model="toy", messages=say("x"), temperature=9), "temperature")
    refused(openai.BadRequestError, lambda: ask(model="toy", messages=say("x"), stop=["x"] * 1000), "stop")
    refused(openai.BadRequestError, lambda: ask(model="toy", messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]), "messages[0].content[0]")
    long = refused(openai.BadRequestError, lambda: ask(model="toy", messages=say("word " * 5000)))
    assert long.code == "context_length_exceeded", long.body
    never = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "never"}}}
    refused(openai.BadRequestError, lambda: ask(model="toy", messages=say("x"), response_format=never))
    refused(openai.BadRequestError, lambda: ask(model="plain", messages=say("x"), temperature=0.2), "temperature")
    refused(openai.BadRequestError, lambda: ask(model="plain", messages=say("x"), logprobs=True), "logprobs")
    refused(openai.BadRequestError, lambda: client.embeddings.create(model="plain", input="x"), "model")
    refused(openai.BadRequestError, lambda: ask(model="strict", messages=[{"role": "system", "content": "x"}]), "messages")
    assert refused(openai.InternalServerError, lambda: client.audio.transcriptions.create(model="toy", file=b"x")).status_code == 501
    assert refused(openai.InternalServerError, lambda: client.batches.list()).status_code == 501


def plain_models():
    assert client.chat.completions.create(model="plain", messages=[{"role": "user", "content": "hi"}]).choices[0].message.content == "you said user: hi\nassistant: "
    assert client.completions.create(model="plain", prompt="hi", max_tokens=None, extra_body={"temperature": 1}).choices[0].text == "you said hi"


OWN = [models, chat, chat_streams, several_choices, limits_of_length, logprobs, completions, tools, reasoning, structured, embeddings, responses, errors, plain_models]
UPSTREAM = [chat, chat_streams, several_choices, limits_of_length, logprobs, completions, tools, reasoning, structured, embeddings, responses]

PARTS = {"openai": OWN, "upstream": UPSTREAM, "chat": [chat]}

for check in PARTS[sys.argv[2]]:
    try:
        check()
        failure = None
    except BaseException:
        failure = traceback.format_exc()
    print(json.dumps({"check": check.__name__, "failure": failure}), flush=True)
