"""States equal Hugging Face's, from any layer on, padded or not, for every family."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.tiny import ALL_CONFIGS, CONFIGS, DEPTH, LENGTHS, padded_inputs, random_tokens, tiny_encoder, tiny_model

from frostline.encoders.encoder import Encoder, unroll
from frostline.encoders.families import FAMILIES
from frostline.encoders.tokens import Tokens
from frostline.errors import EncoderError, OptionError

TOLERANCE = 1e-5


def hidden_states(encoder: Encoder, tokens: Tokens) -> list[torch.Tensor]:
    """Hugging Face's own states, real tokens only, laid end to end."""
    inputs = padded_inputs(encoder, tokens)
    with torch.inference_mode():
        states = encoder.model(**inputs, output_hidden_states=True).hidden_states
    return [state[inputs["attention_mask"].bool()] for state in states]


def test_every_family_has_a_tiny_model():
    assert set(CONFIGS) == set(FAMILIES)


@pytest.mark.parametrize("name", ALL_CONFIGS)
@pytest.mark.parametrize("padded", [False, True])
def test_states_equal_hugging_faces(name, padded):
    encoder, tokens = tiny_encoder(name), random_tokens()
    theirs = hidden_states(encoder, tokens)
    with torch.inference_mode():
        ours = list(encoder.states(tokens, encoder.layout(tokens), padded=padded))
    assert len(ours) == len(theirs) == DEPTH + 1
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our, their, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", ALL_CONFIGS)
@pytest.mark.parametrize("padded", [False, True])
def test_running_layers_from_stored_states_equals_the_whole(name, padded):
    encoder, tokens = tiny_encoder(name), random_tokens()
    layout = encoder.layout(tokens)
    with torch.inference_mode():
        raw = [encoder.embed(tokens, layout)]
        raw += encoder.run_each(raw[0], layout, 1, DEPTH, padded=padded)
        for first in range(1, DEPTH + 1):
            for last in range(first, DEPTH + 1):
                again = encoder.run(raw[first - 1].clone(), layout, first, last, padded=padded)
                torch.testing.assert_close(again, raw[last], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", ALL_CONFIGS)
def test_a_text_has_the_same_states_alone_and_in_a_batch(name):
    encoder, tokens = tiny_encoder(name), random_tokens()
    starts = tokens.starts
    with torch.inference_mode():
        together = list(encoder.states(tokens, encoder.layout(tokens)))
        for row in range(len(LENGTHS)):
            alone = tokens.take([row])
            for one, all_rows in zip(encoder.states(alone, encoder.layout(alone)), together, strict=True):
                mine = all_rows[starts[row] : starts[row] + LENGTHS[row]]
                torch.testing.assert_close(one, mine, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", ["bert", "electra", "albert"])
def test_token_types_reach_the_states(name):
    encoder, tokens = tiny_encoder(name), random_tokens()
    types = np.arange(len(tokens.ids)) % 2
    typed = Tokens(ids=tokens.ids, types=types, lengths=tokens.lengths, truncated=0)
    theirs = hidden_states(encoder, typed)
    with torch.inference_mode():
        ours = list(encoder.states(typed, encoder.layout(typed)))
        untyped = list(encoder.states(tokens, encoder.layout(tokens)))
    torch.testing.assert_close(ours[-1], theirs[-1], atol=TOLERANCE, rtol=0)
    assert not torch.allclose(ours[-1], untyped[-1], atol=1e-2)


@pytest.mark.parametrize("name", ["roberta", "xlm-roberta", "mpnet"])
def test_a_padding_token_inside_a_text_gets_the_position_that_the_stock_code_gives_it(name):
    encoder, tokens = tiny_encoder(name), random_tokens((6, 9))
    tokens.ids[[2, 8]] = 1  # the padding token of these families, typed out in the text
    theirs = hidden_states(encoder, tokens)
    with torch.inference_mode():
        ours = list(encoder.states(tokens, encoder.layout(tokens)))
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our, their, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", ALL_CONFIGS)
def test_every_parameter_belongs_to_exactly_one_part(name):
    encoder = unroll(tiny_encoder(name))
    parts = encoder.parts()
    named = [name for part in (parts.embeddings, *parts.layers, parts.final_norm, parts.pooler) for name in part]
    assert sorted(named) == sorted(dict(encoder.model.named_parameters()))


def test_what_several_layers_use_belongs_to_the_embeddings():
    assert "encoder.relative_attention_bias.weight" in tiny_encoder("mpnet").parts().embeddings
    assert "encoder.rel_embeddings.weight" in tiny_encoder("deberta").parts().embeddings
    assert {"encoder.rel_embeddings.weight", "encoder.LayerNorm.weight"} <= set(
        tiny_encoder("deberta-v2").parts().embeddings
    )
    assert "embeddings_project.weight" in tiny_encoder("electra").parts().embeddings
    assert "encoder.embedding_hidden_mapping_in.weight" in tiny_encoder("albert").parts().embeddings


def test_the_convolution_belongs_to_layer_1_and_the_final_norm_to_the_head():
    parts = tiny_encoder("deberta-v2 convolution").parts()
    assert "encoder.conv.conv.weight" in parts.layers[0]
    assert not any("conv" in name for layer in parts.layers[1:] for name in layer)
    assert set(tiny_encoder("modernbert").parts().final_norm) == {"final_norm.weight"}


@pytest.mark.parametrize("name", ["albert", "albert two groups"])
def test_unrolling_albert_changes_no_state_and_shares_no_parameter(name):
    encoder, tokens = tiny_encoder(name), random_tokens()
    assert encoder.shares_layers
    unrolled = unroll(encoder)
    assert not unrolled.shares_layers
    with torch.inference_mode():
        before = list(encoder.states(tokens, encoder.layout(tokens)))
        after = list(unrolled.states(tokens, unrolled.layout(tokens)))
        stock = hidden_states(unrolled, tokens)
    for one, two, three in zip(before, after, stock, strict=True):
        torch.testing.assert_close(one, two, atol=0, rtol=0)
        torch.testing.assert_close(one, three, atol=TOLERANCE, rtol=0)
    places = [value.data_ptr() for layer in unrolled.parts().layers for value in layer.values()]
    assert len(places) == len(set(places)) == DEPTH * len(unrolled.parts().layers[0])


@pytest.mark.parametrize("name", CONFIGS)
def test_dropout_is_off_until_a_layer_is_put_in_training_mode(name):
    encoder, tokens = tiny_encoder(name), random_tokens()
    layout = encoder.layout(tokens)
    with torch.inference_mode():
        start = encoder.embed(tokens, layout)
        quiet = [encoder.run(start, layout, 1, DEPTH) for _ in range(2)]
        assert torch.equal(quiet[0], quiet[1])
        if name in ("albert", "modernbert"):  # no dropout in the default configuration
            return
        encoder.model.train()
        noisy = [encoder.run(start, layout, 1, DEPTH) for _ in range(2)]
    assert not torch.allclose(noisy[0], noisy[1], atol=1e-3)


@pytest.mark.parametrize("name", CONFIGS)
def test_gradients_of_packed_layers_equal_those_of_stock_layers(name):
    encoder, tokens = tiny_encoder(name), random_tokens()
    layout = encoder.layout(tokens)
    gradients = []
    for padded in (False, True):
        encoder.model.zero_grad(set_to_none=True)
        start = encoder.embed(tokens, layout)
        (encoder.run(start, layout, 1, DEPTH, padded=padded) ** 2).mean().backward()
        gradients.append({name: value.grad for name, value in encoder.parts().layers[1].items()})
    packed, stock = gradients
    for key, value in stock.items():
        torch.testing.assert_close(packed[key], value, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if family.can_pack])
@pytest.mark.parametrize("which", ["attention", "project", "down"])
def test_packed_layers_drop_what_the_stock_layers_drop(name, which):
    """With everything dropped at one place, both ways are exact, so they can be compared."""
    encoder, tokens = tiny_encoder(name), random_tokens()
    layer = encoder.family.layers(encoder.model)[0]
    for module in layer.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    before = encoder.family.parts(layer)
    holders = [module for module in layer.modules() if isinstance(module, torch.nn.Dropout)]
    for holder in holders:
        holder.p = 1.0
        dropped = encoder.family.parts(layer)
        if getattr(dropped, f"{which}_dropout") == 1.0 and getattr(before, f"{which}_dropout") == 0.0:
            break
        holder.p = 0.0
    else:
        assert (name, which) in {("distilbert", "project"), ("albert", "down")}  # these have none there
        return
    encoder.model.train()
    layout = encoder.layout(tokens)
    with torch.inference_mode():
        start = torch.randn(layout.tokens, encoder.width, generator=torch.Generator().manual_seed(0))
        packed = encoder.run(start, layout, 1, 1)
        stock = encoder.run(start, layout, 1, 1, padded=True)
    torch.testing.assert_close(packed, stock, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", CONFIGS)
def test_every_projection_and_norm_that_a_family_names_is_there(name):
    encoder = tiny_encoder(name)
    for number, layer in enumerate(encoder.family.layers(encoder.model)):
        for path in encoder.family.projections.values():
            assert isinstance(layer.get_submodule(path), torch.nn.Linear)
        for part, path in encoder.family.norms.items():
            module = layer.get_submodule(path)
            is_missing_first = name == "modernbert" and number == 0 and part == "attention"
            assert "Norm" in type(module).__name__ or is_missing_first


def test_token_types_that_a_model_cannot_tell_apart_are_ignored():
    encoder, tokens = tiny_encoder("roberta"), random_tokens()
    typed = Tokens(ids=tokens.ids, types=np.ones_like(tokens.ids), lengths=tokens.lengths, truncated=0)
    layout = encoder.layout(tokens)
    assert torch.equal(encoder.embed(typed, layout), encoder.embed(tokens, layout))


def test_states_of_chosen_layers_for_a_batch_of_texts(tmp_path):
    from tests.tiny import save_tiny

    from frostline.encoders.loading import load_encoder

    encoder = load_encoder(save_tiny(tmp_path))
    texts = ["ice and snow", "sun", "a long thaw in March"]
    found = encoder.encode(texts, layers=[0, 3])
    assert list(found) == [0, 3]
    for row, text in enumerate(texts):
        with torch.inference_mode():
            out = encoder.model(**encoder.tokenizer(text, return_tensors="pt"), output_hidden_states=True)
        for layer in (0, 3):
            torch.testing.assert_close(found[layer][row], out.hidden_states[layer][0], atol=1e-5, rtol=0)
    assert list(encoder.encode(texts)) == [0, 1, 2, 3, 4]
    with pytest.raises(OptionError, match=r"layer 9: .* has states 0\.\.4"):
        encoder.encode(texts, layers=[9])


def test_half_precision_states_are_pooled_without_overflow():
    from frostline.states.pooled import pooled_states

    encoder = Encoder(tiny_model("bert").half())
    tokens = random_tokens((60, 50))
    assert pooled_states(encoder, tokens)["mean"].isfinite().all()


def test_layers_that_do_not_exist_are_refused():
    encoder, tokens = tiny_encoder("bert"), random_tokens()
    layout = encoder.layout(tokens)
    states = encoder.embed(tokens, layout)
    with pytest.raises(OptionError, match=r"layers 2\.\.5: tiny bert has layers 1\.\.4"):
        encoder.run(states, layout, 2, 5)
    with pytest.raises(OptionError, match=r"layers 0\.\.2"):
        encoder.run(states, layout, 0, 2)


def test_running_no_layer_returns_the_states():
    encoder, tokens = tiny_encoder("bert"), random_tokens()
    layout = encoder.layout(tokens)
    states = encoder.embed(tokens, layout)
    assert encoder.run(states, layout, 3, 2) is states


def test_a_decoder_is_refused():
    model = tiny_model("bert")
    model.config.is_decoder = True
    with pytest.raises(EncoderError, match="configured as a decoder"):
        Encoder(model)


def test_an_encoder_without_tokenizer_says_so():
    with pytest.raises(EncoderError, match="no tokenizer"):
        tiny_encoder("bert").tokenize(["a text"])
