import pytest

from judging.dataset.records import recognise


@pytest.mark.parametrize(
    ("names", "sources"),
    [
        (
            ["external_id", "question", "response_1", "response_2", "model_1", "model_2"],
            ["external_id", "question", "response_1", "response_2", "model_1", "model_2"],
        ),
        (["ID", "Prompt", "Answer 1", "Answer 2"], ["ID", "Prompt", "Answer 1", "Answer 2"]),
        (["idx", "instruction", "output_1", "output-2"],) * 2,
        (["question_id", "Question", "response_a", "response_b"],) * 2,
    ],
)
def test_columns_are_recognised_without_case_and_punctuation(names, sources):
    columns = recognise(names)
    assert [source[0] for source in columns.sources.values()] == sources
    assert not columns.missing


def test_the_id_of_the_pair_goes_before_the_id_of_the_question():
    columns = recognise(["question_id", "id", "question", "response_1", "response_2"])
    assert columns.sources["external_id"] == ("id",)
    assert columns.unused == ("question_id",)


def test_an_instruction_takes_its_input_along():
    columns = recognise(["instruction", "input", "response1", "response2"])
    assert columns.sources["question"] == ("instruction", "input")


def test_an_input_next_to_a_question_is_left_alone():
    columns = recognise(["question", "input", "response1", "response2"])
    assert columns.sources["question"] == ("question",)
    assert columns.unused == ("input",)


def test_a_mapping_goes_before_what_is_recognised():
    names = ["id", "question", "hypothesis", "response_1", "response_2"]
    columns = recognise(names, {"hypothesis": "response_2", "id": "ignore"})
    assert columns.sources["response_2"] == ("hypothesis",)
    assert "external_id" not in columns.sources
    assert columns.unused == ("id", "response_2")


def test_two_columns_mapped_to_the_question_are_joined_in_the_order_of_the_mapping():
    names = ["system", "user", "response_1", "response_2"]
    columns = recognise(names, {"system": "question", "user": "question"})
    assert columns.sources["question"] == ("system", "user")


def test_what_is_missing_and_what_a_mapping_names_in_vain_is_told():
    columns = recognise(["id", "question", "response_1"], {"other": "response_2"})
    assert columns.missing == ("response_2",)
    assert columns.absent == ("other",)


def test_the_names_of_both_models_are_used_only_where_none_has_a_column():
    assert recognise(["cmp_key"]).both_models == "cmp_key"
    assert recognise(["cmp_key", "model_1"]).both_models is None
