"""The stream: which facts are read off claude's output, and that nothing in it can hurt."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hivesub.records import TurnUsage
from hivesub.turns.events import ERRORS_CHARACTERS, ERRORS_LIMIT, TEXT_LIMIT
from hivesub.turns.stream import Stream, Tail

SESSION = "00000000-0000-4000-8000-000000000001"
OTHER_SESSION = "00000000-0000-4000-8000-000000000002"
INIT = {
    "type": "system",
    "subtype": "init",
    "session_id": SESSION,
    "cwd": "/w",
    "tools": ["Read", "mcp__subagent_control__need_help"],
    "mcp_servers": [{"name": "subagent_control", "status": "connected", "source": "dynamic"}],
}
RESULT = {
    "duration_ms": 5,
    "num_turns": 2,
    "result": "done",
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "session_id": SESSION,
    "total_cost_usd": 0.25,
    "usage": {"input_tokens": 20, "output_tokens": 10},
    "terminal_reason": "completed",
}
INTERRUPTED = {
    "type": "user",
    "message": {"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user]"}]},
    "parent_tool_use_id": None,
}
ANSWER = {"type": "assistant", "message": {"content": [{"type": "text", "text": "hello"}]}}


def line(event: object) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def read(*events: object, piece: int = 0) -> Stream:
    stream = Stream()
    data = b"".join(event if isinstance(event, bytes) else line(event) for event in events)
    for start in range(0, len(data), piece or len(data) or 1):
        stream.feed(data[start : start + (piece or len(data))])
    stream.finish()
    return stream


def result(**changes: Any) -> dict[str, Any]:
    return {**RESULT, **changes}


class FactTests(SynchronousTestCase):
    def test_an_init_event_tells_what_the_session_really_got(self) -> None:
        init = read(INIT).init
        assert init is not None
        self.assertEqual((init.session_id, init.cwd), (SESSION, "/w"))
        self.assertEqual(init.tools, ("Read", "mcp__subagent_control__need_help"))
        self.assertEqual(init.mcp_servers, {"subagent_control": "connected"})

    def test_a_session_id_that_is_no_uuid_is_not_taken(self) -> None:
        for forged in ("s-1", f"{SESSION}/x", f"--{SESSION}", f"{SESSION}\n"):
            init = read({**INIT, "session_id": forged}).init
            assert init is not None
            self.assertIsNone(init.session_id)

    def test_a_result_is_seen_wherever_its_type_stands_in_the_line(self) -> None:
        seen = read(INIT, RESULT).result
        assert seen is not None
        self.assertEqual((seen.is_error, seen.subtype, seen.text), (False, "success", "done"))
        self.assertEqual((seen.terminal_reason, seen.session_id, seen.num_turns), ("completed", SESSION, 2))
        self.assertEqual((seen.total_cost_usd, seen.input_tokens, seen.output_tokens), (0.25, 20, 10))

    def test_the_last_result_and_the_last_init_count_and_all_are_counted(self) -> None:
        stream = read(INIT, RESULT, {**INIT, "session_id": OTHER_SESSION}, result(result="more", total_cost_usd=0.5))
        assert stream.result is not None and stream.init is not None
        self.assertEqual((stream.result.text, stream.init.session_id), ("more", OTHER_SESSION))
        self.assertEqual((stream.inits, stream.results), (2, 2))

    def test_usage_is_summed_over_results_and_the_cost_is_the_last_told(self) -> None:
        stream = read(INIT, RESULT, result(total_cost_usd=0.5), result(total_cost_usd="much"))
        self.assertEqual(
            stream.usage,
            TurnUsage(total_cost_usd=0.5, since_usd=None, claude_turns=6, input_tokens=60, output_tokens=30),
        )

    def test_what_the_process_itself_spent_is_summed_over_models_and_results(self) -> None:
        first = result(
            model_usage_since_last_result={"a": {"costUSD": 0.25}, "b": {"costUSD": 0.5}, "c": {"costUSD": "x"}}
        )
        stream = read(INIT, first, result(), result(model_usage_since_last_result={"a": {"costUSD": 1}, "b": 3}))
        self.assertEqual(stream.usage.since_usd, 1.75)
        self.assertIsNone(read(INIT, RESULT, result(model_usage_since_last_result=[])).usage.since_usd)
        self.assertEqual(read(INIT, result(model_usage_since_last_result={})).usage.since_usd, 0.0)

    def test_a_result_is_the_answer_until_the_next_init(self) -> None:
        self.assertFalse(read(INIT).answered)
        self.assertTrue(read(INIT, RESULT).answered)
        self.assertFalse(read(INIT, RESULT, INIT).answered)
        self.assertTrue(read(INIT, RESULT, INIT, RESULT).answered)

    def test_a_result_before_any_init_tells_no_cost(self) -> None:
        stream = read(result(is_error=True, total_cost_usd=0))
        self.assertIsNone(stream.usage.total_cost_usd)

    def test_the_last_list_of_background_tasks_counts(self) -> None:
        def tasks(*ids: str) -> dict[str, Any]:
            return {"type": "system", "subtype": "background_tasks_changed", "tasks": [{"task_id": i} for i in ids]}

        self.assertEqual(read(tasks("a"), tasks("a", "b")).background_tasks, 2)
        self.assertEqual(read(tasks("a"), tasks()).background_tasks, 0)
        self.assertEqual(read(tasks("a"), {**tasks(), "tasks": "none"}).background_tasks, 1)

    def test_the_note_of_an_interruption_is_known_in_each_of_its_forms(self) -> None:
        for_tool = {"type": "user", "message": {"content": "[Request interrupted by user for tool use]"}}
        self.assertTrue(read(INIT, INTERRUPTED).user_interrupted)
        self.assertTrue(read(INIT, for_tool, {"type": "system", "subtype": "status"}, b"bye\n").user_interrupted)

    def test_an_answer_or_a_result_after_the_note_clears_it(self) -> None:
        self.assertFalse(read(INTERRUPTED, RESULT).user_interrupted)
        self.assertFalse(read(INTERRUPTED, ANSWER).user_interrupted)
        self.assertFalse(read(INTERRUPTED, ANSWER, piece=7).user_interrupted)
        self.assertTrue(read(ANSWER, RESULT, INTERRUPTED).user_interrupted)

    def test_the_error_result_that_claude_writes_on_an_interruption_does_not_clear_it(self) -> None:
        aborted = result(is_error=True, subtype="error_during_execution", terminal_reason="aborted_tools")
        self.assertTrue(read(INIT, INTERRUPTED, aborted).user_interrupted)

    def test_the_words_of_an_interruption_elsewhere_are_no_interruption(self) -> None:
        words = "[Request interrupted by user]"
        tool_output = {"type": "user", "message": {"content": [{"type": "tool_result", "content": words}]}}
        in_a_sentence = {"type": "user", "message": {"content": f"it said {words}"}}
        nested = {**INTERRUPTED, "parent_tool_use_id": "toolu_1"}
        answer = {"type": "assistant", "message": {"content": [{"type": "text", "text": words}]}}
        self.assertFalse(read(tool_output, in_a_sentence, nested, answer).user_interrupted)

    def test_a_result_quoted_inside_another_event_is_none(self) -> None:
        quoted = {"type": "user", "message": {"content": [{"type": "tool_result", "content": RESULT}]}}
        as_text = {"type": "assistant", "message": {"content": [{"type": "text", "text": json.dumps(RESULT)}]}}
        self.assertEqual(read(quoted, as_text, [RESULT]).results, 0)

    def test_an_error_flag_that_is_missing_is_taken_from_the_subtype(self) -> None:
        without = {key: value for key, value in RESULT.items() if key != "is_error"}
        failed = read({**without, "subtype": "error_during_execution"}).result
        good = read(without).result
        assert failed is not None and good is not None
        self.assertEqual((failed.is_error, good.is_error), (True, False))


class RobustnessTests(SynchronousTestCase):
    def test_junk_is_counted_and_passed_over(self) -> None:
        words = b'"x":"interrupted by user"}\n'
        junk = [
            b'A banner with "result" and "system"\n',
            b"\n",
            b"  \r\n",
            b'{broken "result"\n',
            b"[]\n",
            b"null\n",
            b"42\n",
            b'["result"]\n',
            b'"result"\n',
            b'{"type":"unheard_of","result":1}\n',
            b'{"type":["result"]}\n',
            b'{"result":{"type":"result"}}\n',
            b'\xff\xfe"system"\n',
            b"\x00\n",
            b'{"type":"result"' + b"[" * 200_000 + b"\n",
            b'{"type":"result","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
            b'{"type":"system","subtype":7}\n',
            b'{"type":"user","message":null,' + words,
            b'{"type":"user","message":{"content":null},' + words,
            b'{"type":"user","message":{"content":{"text":1}},' + words,
            b'{"type":"user","message":{"content":[null,{"type":"text","text":5}]},' + words,
        ]
        stream = read(*junk, RESULT)
        self.assertEqual((stream.results, stream.inits, stream.user_interrupted), (1, 0, False))
        self.assertEqual(stream.bytes_read, sum(map(len, junk)) + len(line(RESULT)))

    def test_facts_of_the_wrong_type_are_left_out(self) -> None:
        odd = {"type": "system", "subtype": "init", "session_id": 4, "tools": "Read", "mcp_servers": {"a": "b"}}
        init = read(odd).init
        assert init is not None
        self.assertEqual((init.session_id, init.cwd, init.tools, init.mcp_servers), (None, None, None, None))
        some = read(
            {**INIT, "tools": ["Read", None, 3], "mcp_servers": [1, {"name": "x"}, {"name": "y", "status": "failed"}]}
        ).init
        assert some is not None
        self.assertEqual((some.tools, some.mcp_servers), (("Read",), {"y": "failed"}))

    def test_a_result_of_the_wrong_types_is_still_a_result(self) -> None:
        seen = read(
            b'{"type":"result","subtype":"success","is_error":false,"result":{"a":1},"errors":"no","num_turns":true,'
            b'"total_cost_usd":NaN,"usage":{"input_tokens":' + b"9" * 5000 + b',"output_tokens":-3}}\n'
        ).result
        assert seen is not None
        self.assertEqual((seen.is_error, seen.text, seen.errors, seen.num_turns), (False, "", (), 0))
        self.assertEqual((seen.total_cost_usd, seen.input_tokens, seen.output_tokens), (None, 0, 0))

    def test_a_line_may_come_byte_by_byte_with_a_bom_and_crlf(self) -> None:
        data = b"\xef\xbb\xbf" + json.dumps(result(result="naïve ☃")).encode() + b"\r\n"
        raw = json.dumps(result(result="naïve ☃"), ensure_ascii=False).encode()
        for whole in (data, raw):
            seen = read(whole, piece=1).result
            assert seen is not None
            self.assertEqual(seen.text, "naïve ☃")

    def test_lone_surrogates_and_broken_utf_8_become_replacement_characters(self) -> None:
        seen = read(b'{"type":"result","is_error":false,"result":"a\\ud83db\xffc\\ud83d\\ude00"}\n').result
        assert seen is not None
        self.assertEqual(seen.text, "a\ufffdb\ufffdc\U0001f600")

    def test_a_long_text_is_cut_and_said_to_be(self) -> None:
        seen = read(result(result="x" * (TEXT_LIMIT + 1))).result
        exact = read(result(result="x" * TEXT_LIMIT)).result
        assert seen is not None and exact is not None
        self.assertEqual((len(seen.text), seen.text_after, exact.text_after), (TEXT_LIMIT, "x", ""))

    def test_only_the_first_errors_are_kept_and_the_rest_is_counted(self) -> None:
        def errors(*texts: object) -> tuple[str, ...]:
            seen = read(result(is_error=True, errors=texts)).result
            assert seen is not None
            return seen.errors

        few = [f"error {number}" for number in range(ERRORS_LIMIT)]
        self.assertEqual(errors(*few), tuple(few))
        self.assertEqual(errors(*few, None, "x", "y"), (*few, "2 more left out"))
        self.assertEqual(errors("x" * ERRORS_CHARACTERS), ("x" * ERRORS_CHARACTERS,))
        self.assertEqual(errors("xy", "z" * TEXT_LIMIT, "w"), ("xy", "z" * (ERRORS_CHARACTERS - 2), "1 more left out"))

    def test_a_line_past_the_limit_is_dropped_in_pieces_or_whole_and_the_next_is_read(self) -> None:
        long = line(result(result="x" * 5000))
        for piece in (0, 1000, 7):
            stream = Stream(line_limit_bytes=4096)
            data = long + line(RESULT)
            for start in range(0, len(data), piece or len(data)):
                stream.feed(data[start : start + (piece or len(data))])
            self.assertEqual(stream.results, 1, piece)
            self.assertEqual(stream.bytes_read, len(data))

    def test_what_looks_like_an_event_at_the_end_of_a_line_past_the_limit_is_none(self) -> None:
        stream = Stream(line_limit_bytes=4096)
        for piece in (b"x" * 4097, line(RESULT), line(INIT)):
            stream.feed(piece)
        self.assertEqual((stream.results, stream.inits), (0, 1))

    def test_memory_stays_bounded_while_an_endless_line_comes(self) -> None:
        stream = Stream(line_limit_bytes=4096)
        for _ in range(100):
            stream.feed(b"x" * 1000)
            self.assertLessEqual(len(stream._open_line), 4096)
        stream.finish()
        self.assertEqual((stream.bytes_read, stream.results), (100_000, 0))

    def test_a_last_line_without_a_newline_counts_when_it_is_whole(self) -> None:
        whole, cut = line(RESULT)[:-1], line(RESULT)[:-20]
        self.assertEqual((read(INIT, whole).results, read(INIT, cut).results), (1, 0))

    def test_every_split_of_a_short_stream_gives_the_same_facts(self) -> None:
        data = line(INIT) + b"chatter\n" + line(RESULT)
        for cut in range(len(data) + 1):
            stream = Stream()
            stream.feed(data[:cut])
            stream.feed(data[cut:])
            stream.finish()
            self.assertEqual((stream.inits, stream.results), (1, 1), cut)

    def test_a_hundred_thousand_lines_are_all_counted_and_hide_no_fact(self) -> None:
        stream = Stream()
        talk = line(ANSWER) * 500 + line({"type": "user", "message": {"content": "hello"}}) * 500
        for _ in range(50):
            stream.feed(talk)
        stream.feed(talk + line(INIT) + talk)
        for _ in range(49):
            stream.feed(talk + line(RESULT))
        self.assertEqual((stream.inits, stream.results), (1, 49))
        self.assertEqual(stream.bytes_read, 101 * len(talk) + len(line(INIT)) + 49 * len(line(RESULT)))

    def test_a_fact_is_found_wherever_it_stands_among_other_lines(self) -> None:
        facts = (line(RESULT), line({"subtype": "success", "result": "x", "type": "result"}), b" " + line(RESULT))
        talk = line(ANSWER) + line(INTERRUPTED | {"message": {"content": "hello"}})
        for fact in facts:
            for before, after in ((b"", talk), (talk, b""), (talk, talk), (b"\n", talk), (talk + b"\n", b"\n")):
                self.assertEqual(read(before + fact + after).results, 1, (before, fact, after))
                self.assertEqual(read(before + line(INIT) + fact + after).inits, 1, (before, fact, after))

    def test_an_interruption_is_seen_and_cleared_among_other_lines(self) -> None:
        talk = line(ANSWER) + line({"type": "user", "message": {"content": "hello"}})
        self.assertTrue(read(talk + line(INTERRUPTED)).user_interrupted)
        self.assertTrue(read(talk, INTERRUPTED, {"type": "user", "message": {"content": "hello"}}).user_interrupted)
        self.assertFalse(read(talk + line(INTERRUPTED) + talk).user_interrupted)
        self.assertFalse(read(talk, INTERRUPTED, talk, piece=50).user_interrupted)


class TailTests(SynchronousTestCase):
    def test_the_last_bytes_are_kept_and_all_are_counted(self) -> None:
        tail = Tail(limit_bytes=10)
        for piece in (b"a" * 100, b"b\nc", b"", b"defghij"):
            tail.feed(piece)
        self.assertEqual((tail.text(), tail.bytes_read), ("cdefghij", 110))

    def test_what_is_within_the_bound_is_whole(self) -> None:
        tail = Tail(limit_bytes=10)
        tail.feed(b"ab cd\nefg\n")
        self.assertEqual(tail.text(), "ab cd\nefg\n")

    def test_a_line_or_word_that_the_bound_cuts_is_left_out_as_it_may_be_half_of_a_secret(self) -> None:
        for cut, said in (
            (b" of it\nwhat then came\nand came", "what then came\nand came"),
            (b"secret what then came and came", "what then came and came"),
            (b'secret","key":"what-then-came-and-came', ',"key":"what-then-came-and-came'),
            (b"secretxxxwhat then\n", "what then\n"),
        ):
            tail = Tail(limit_bytes=len(cut))
            tail.feed(b"half" + cut)
            self.assertEqual(tail.text(), said)

    def test_a_megabyte_in_small_pieces_without_a_newline_stays_bounded(self) -> None:
        tail = Tail()
        for _ in range(1024):
            tail.feed(b"y" * 1024)
            self.assertLessEqual(len(tail._kept), 3 * 8192)
        self.assertEqual(tail.text(), "y" * 4096)

    def test_bytes_that_are_no_text_are_replaced(self) -> None:
        tail = Tail()
        tail.feed(b"ok \xff")
        self.assertEqual(tail.text(), "ok \ufffd")
