"""A chat server without a language model, to try what asks one without weights, network or cost.

    python examples/pretend_llm.py [--port 8765]

It speaks OpenAI's chat protocol on loopback and answers the prompts of `retrokit build-sure`, `retrokit augment
queries` and `retrokit rerank --with llm:…` by rules: the sentence that shares most words with the query is the key
sentence and the summary, "what is called alpha here" takes a keyword's place, a query is made of the longest words of a
sentence, and passages rank by the words that they share with the query. What it writes has the right form and no
quality: use a real model for benchmarks and training data.
"""

import argparse
import itertools
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_NAMES = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda sigma omega".split()
_FORMS = {
    "two to six keywords": "{}",
    "everyday words": "what is known of {}?",
    "a claim": "there is a link between {}",
    "how to do": "how does one find {}?",
    "a situation": "I have read of {}. What else is there to know?",
}
_TAGGED = re.compile(r"<([a-z]+)-[0-9a-f]{8}>\n(.*?)\n</\1-[0-9a-f]{8}>", re.DOTALL)
_NUMBERED = re.compile(r'<passage number="(\d+)">\n(.*?)\n</passage>', re.DOTALL)
_SHORT = set(
    "a an and are as at be by do does for from how i in is it of on or that the this to was what when who".split()
)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="Answer retrokit's prompts by rules, as an OpenAI-compatible server.")
    parser.add_argument("--port", type=int, default=8765, help="0: any that is free")
    port = parser.parse_args().port
    try:
        server = Server(("127.0.0.1", port), Handler)
    except (OSError, OverflowError) as error:
        sys.exit(f"port {port} of 127.0.0.1 cannot be listened on: {error}")
    print(f"listening on http://127.0.0.1:{server.server_port}/v1", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


class Server(ThreadingHTTPServer):
    """As many connections may wait as are asked at once."""

    request_queue_size = 1024


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a chat completion."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = {"role": "assistant", "content": answer(asked["messages"][-1]["content"])}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        body = json.dumps({"object": "chat.completion", "choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing of each request."""


def answer(prompt: str) -> str:
    """What the rules say to one of the prompts of build-sure, of augment queries or of a reranker.

    >>> answer("query:\\n<query-0a1b2c3d>\\nWho sat?\\n</query-0a1b2c3d>\\n\\nOutput them after 'sentences:'.")
    'sentences:\\nNothing is said here about who sat.\\nThat is left to others to tell.'
    """
    if numbered := dict(_NUMBERED.findall(prompt)):
        return ranked(prompt, numbered)
    given = dict(_TAGGED.findall(prompt))
    task = _TAGGED.sub("", prompt)
    query, passage = given.get("query", ""), given.get("passage", "")
    if "'grade:'" in task:
        held = set(words(passage))
        return f"grade: {round(3 * sum(word in held for word in words(query)) / max(1, len(words(query))))}"
    if "'query:'" in task:
        return f"query: {written_query(task, passage)}"
    if "'new sentences:'" in task:
        return f"new sentences: {given['sentences']}"
    if "'key sentences:'" in task:
        return f"key sentences:\n{best_sentence(query, passage)}"
    if "'summary:'" in task:
        return f"summary: In short: {best_sentence(query, passage)}"
    if "'expansion:'" in task:
        return f"expansion: {passage} There is more to be said about this. Others have written on the theme at length."
    if "'paraphrased passage:'" in task:
        return paraphrase(query, passage)
    if "'sentences:'" in task:
        topic = query.rstrip(" ?.!").lower()
        return f"sentences:\nNothing is said here about {topic}.\nThat is left to others to tell."
    return "no" if "EXACT keywords" in task else "yes"


def ranked(prompt: str, passages: dict[str, str]) -> str:
    """The numbers of the passages by the share of the query's words that each has; of one passage a grade, 0 to 4."""
    wanted = set(words(prompt.split("<query>")[1].split("</query>")[0])) - _SHORT
    shares = {number: len(wanted & set(words(text))) / max(1, len(wanted)) for number, text in passages.items()}
    if "one number" in prompt:
        return str(round(4 * max(shares.values())))
    return " > ".join(f"[{number}]" for number in sorted(shares, key=shares.__getitem__, reverse=True))


def words(text: str) -> list[str]:
    """Words in lower case."""
    return re.findall(r"\w+", text.lower())


def best_sentence(query: str, passage: str) -> str:
    """The passage's sentence that shares most words with the query."""
    sentences = [part for part in re.split(r"(?<=[.!?])\s+", " ".join(passage.split())) if words(part)]
    wanted = set(words(query)) - _SHORT
    return max(sentences, key=lambda sentence: len(wanted & set(words(sentence))), default=passage)


def written_query(task: str, passage: str) -> str:
    """A query of the type that the task names, of the five longest words of a sentence, another for each type."""
    form = next(form for form in _FORMS if form in task)
    sentences = [part for part in re.split(r"(?<=[.!?])\s+", " ".join(passage.split())) if words(part)]
    sentence = sentences[list(_FORMS).index(form) % len(sentences)] if sentences else passage
    longest = sorted(dict.fromkeys(words(sentence)), key=len)[-5:]
    return _FORMS[form].format(" ".join(dict.fromkeys(word for word in words(sentence) if word in longest)))


def paraphrase(query: str, passage: str) -> str:
    """The passage with "what is called alpha here" and the like in place of the query's keywords."""
    keywords = [word for word in dict.fromkeys(words(query)) if word not in _SHORT] or words(query)
    for keyword, name in zip(keywords, itertools.cycle(_NAMES), strict=False):
        passage = re.sub(rf"\b{re.escape(keyword)}\b", f"what is called {name} here", passage, flags=re.IGNORECASE)
    passage = f"In other words: {passage}"
    return f"keywords in the query: {', '.join(keywords)}\nparaphrased passage: {passage}"


if __name__ == "__main__":
    main()
