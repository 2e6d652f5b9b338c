import pytest

from shallowflow.reporting.summary import for_html, for_matplotlib


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("t / t_n.", "t / t<sub>n</sub>."),
        ("n = 10^100", "n = 10<sup>100</sup>"),
        ("α = 10^-6 & more", "α = 10<sup>−6</sup> &amp; more"),
        ("c·λ^(ε‖D‖/D_max)", "c·λ<sup>ε‖D‖/D<sub>max</sub></sup>"),
        ("my_data.csv, label_seed, a_b.csv", "my_data.csv, label_seed, a_b.csv"),
    ],
)
def test_formulas_of_a_page(text: str, page: str) -> None:
    assert for_html(text) == page


def test_formulas_of_a_figure() -> None:
    assert for_matplotlib("$5 label_seed") == r"\$5 label_seed"
    assert for_matplotlib("x_k") == r"x$_{\mathdefault{k}}$"
    assert for_matplotlib("2^(a/D_m)") == r"2$^{{\mathdefault{a/D}}_{\mathdefault{m}}}$"
