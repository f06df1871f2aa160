"""The official client of OpenAI, LangChain and LlamaIndex against a real language model. `python real_model.py <base URL> <model> <part>`."""

import json
import sys
import traceback

import openai

url, model, part = sys.argv[1:]
client = openai.OpenAI(base_url=url, api_key="k", max_retries=0)
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
HI = [{"role": "user", "content": "Write one sentence about the sea."}]
PARIS = [{"role": "user", "content": "What is the weather in Paris?"}]


def ask(messages=HI, **more):
    settings = {"max_tokens": 8, "temperature": 0, **more}
    return client.chat.completions.create(model=model, messages=messages, **settings)


def chat_and_stream():
    whole = ask()
    assert whole.choices[0].finish_reason == "length" and whole.usage.completion_tokens == 8, whole
    chunks = list(ask(stream=True, stream_options={"include_usage": True}))
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert said == whole.choices[0].message.content and said, said
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 8
    assert chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens > 0


def stop_seed_and_choices():
    words = ask().choices[0].message.content.split(" ")
    stopped = ask(stop=[" " + words[2]]).choices[0]
    assert stopped.finish_reason == "stop" and stopped.message.content == " ".join(words[:2]), stopped
    seeded = [ask(temperature=1, seed=7).choices[0].message.content for _ in range(2)]
    assert seeded[0] == seeded[1], seeded
    several = ask(temperature=1, seed=7, n=3)
    texts = [choice.message.content for choice in several.choices]
    assert texts[0] == seeded[0] and len(set(texts)) > 1, texts
    assert several.usage.completion_tokens <= 24 and several.usage.prompt_tokens == ask().usage.prompt_tokens


def logprobs():
    choice = ask(logprobs=True, top_logprobs=2).choices[0]
    content = choice.logprobs.content
    assert "".join(token.token for token in content) == choice.message.content and len(content) == 8
    for token in content:
        assert token.logprob <= 0 and len(token.top_logprobs) == 2 and token.top_logprobs[0].token == token.token
    plain = client.completions.create(model=model, prompt="The capital of France is", max_tokens=4, temperature=0, logprobs=1)
    assert "".join(plain.choices[0].logprobs.tokens) == plain.choices[0].text
    assert plain.choices[0].text.startswith(" Paris"), plain


def tools():
    answer = ask(PARIS, tools=[TOOL], tool_choice="required", max_tokens=60).choices[0]
    assert answer.finish_reason == "tool_calls", answer
    for call in answer.message.tool_calls:
        assert call.function.name == "get_weather" and json.loads(call.function.arguments)["city"]
    named = {"type": "function", "function": {"name": "get_weather"}}
    calls = {}
    for chunk in ask(PARIS, tools=[TOOL], tool_choice=named, max_tokens=60, stream=True):
        for call in chunk.choices[0].delta.tool_calls or []:
            calls.setdefault(call.index, []).append(call)
    assert calls[0][0].function.name == "get_weather"
    assert json.loads("".join(call.function.arguments or "" for call in calls[0]))["city"]
    first = answer.message.tool_calls[0]
    more = [*PARIS, answer.message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": first.id, "content": "sunny"}]
    assert ask(more, tools=[TOOL], max_tokens=2).choices[0].message.content is not None


def structured():
    from pydantic import BaseModel, Field

    class City(BaseModel):
        country: str = Field(max_length=12)
        people: int = Field(ge=1, le=99)

    parsed = client.chat.completions.parse(model=model, messages=PARIS, response_format=City, temperature=0, max_tokens=60)
    city = parsed.choices[0].message.parsed
    assert len(city.country) <= 12 and 1 <= city.people <= 99
    text = ask(PARIS, response_format={"type": "json_object"}, max_tokens=12).choices[0]
    assert text.message.content.startswith("{") and (text.finish_reason == "length" or isinstance(json.loads(text.message.content), dict))


def responses():
    answer = client.responses.create(model=model, input="Say hi.", max_output_tokens=8, temperature=0)
    assert answer.output_text and answer.usage.output_tokens <= 8
    with client.responses.stream(model=model, input="Say hi.", max_output_tokens=8, temperature=0) as stream:
        kinds = [event.type for event in stream]
        assert kinds[0] == "response.created" and kinds[-1] == ("response.completed" if answer.status == "completed" else "response.incomplete"), kinds


def embeddings():
    answer = client.embeddings.create(model="vectors", input=["a cat", "a dog"])
    assert len(answer.data) == 2 and len(answer.data[0].embedding) == 576
    plain = client.embeddings.create(model="vectors", input="a cat", encoding_format="float").data[0].embedding
    assert max(abs(a - b) for a, b in zip(plain, answer.data[0].embedding)) < 1e-3
    assert len(client.embeddings.create(model="vectors", input="a cat", dimensions=8).data[0].embedding) == 8


def refused(kind, make):
    try:
        make()
    except kind as error:
        assert error.body["message"] and error.body["type"], error.body
        return error
    raise AssertionError("not refused")


def errors():
    long = refused(openai.BadRequestError, lambda: ask([{"role": "user", "content": "word " * 2000}]))
    assert long.code == "context_length_exceeded", long.body
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]
    refused(openai.BadRequestError, lambda: ask(image))
    refused(openai.BadRequestError, lambda: ask(temperature=float("1e9")))
    refused(openai.BadRequestError, lambda: ask(stop=["x"] * 1000))


def routed():
    """The model is a router with `small` and `large` behind it."""
    assert ask(max_tokens=1).model == "small"
    assert ask(extra_headers={"x-tier": "gold"}, max_tokens=1).model == "large"
    assert ask(user="ann", max_tokens=1).model == "large" and ask(user="bob", max_tokens=1).model == "small"
    assert ask([{"role": "user", "content": "word " * 120}], max_tokens=1).model == "large"
    assert [chunk.model for chunk in ask(max_tokens=40, stop=[" "], stream=True)][0] == "large"
    assert client.completions.create(model=model, prompt="word " * 120, max_tokens=1).model == "large"


def langchain():
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    @tool
    def get_weather(city: str) -> str:
        """The weather of a city."""
        return city

    chat_model = ChatOpenAI(base_url=url, api_key="k", model=model, max_retries=0, temperature=0, max_tokens=8)
    whole = chat_model.invoke("Write one sentence about the sea.")
    assert whole.content and whole.usage_metadata["output_tokens"] == 8
    assert "".join(str(chunk.content) for chunk in chat_model.stream("Write one sentence about the sea.")) == whole.content
    bound = ChatOpenAI(base_url=url, api_key="k", model=model, max_retries=0, temperature=0, max_tokens=40)
    assert bound.bind_tools([get_weather], tool_choice="any").invoke("What is the weather in Paris?").tool_calls[0]["args"]["city"]
    vectors = OpenAIEmbeddings(base_url=url, api_key="k", model="vectors", check_embedding_ctx_length=False)
    assert len(vectors.embed_query("a cat")) == 576


def llama_index():
    from llama_index.core.llms import ChatMessage
    from llama_index.llms.openai_like import OpenAILike

    llm = OpenAILike(api_base=url, api_key="k", model=model, is_chat_model=True, max_retries=0, context_window=1024, max_tokens=8, temperature=0)
    messages = [ChatMessage(role="user", content="Write one sentence about the sea.")]
    whole = llm.chat(messages).message.content
    assert whole and "".join(piece.delta for piece in llm.stream_chat(messages)) == whole
    assert llm.complete("Say hi.").text


PARTS = {
    "openai": [chat_and_stream, stop_seed_and_choices, logprobs, tools, structured, responses, embeddings, errors],
    "router": [chat_and_stream, routed],
    "others": [langchain, llama_index],
}

for check in PARTS[part]:
    try:
        check()
        failure = None
    except BaseException:
        failure = traceback.format_exc()
    print(json.dumps({"check": check.__name__, "failure": failure}), flush=True)
