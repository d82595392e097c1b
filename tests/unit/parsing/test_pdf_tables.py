from __future__ import annotations

from easy_knowledge_retriever.parsing.pdf_tables import Cell, table_rows


def line(top: float, *cells: tuple[str, float, float]) -> list[Cell]:
    """Cells side by side: text, left and right edge."""
    return [Cell(text, left, top, right, top + 8) for text, left, right in cells]


def test_good_rows_are_kept_without_empty_columns() -> None:
    rows = [["Name", "", "Price"], ["Apple", "", "1.20"], ["A pear, which is wrapped", "", "0.80"], ["", "", ""]]
    cells = [*line(0, ("Name", 0, 20), ("Price", 90, 110)), *line(10, ("Apple", 0, 20), ("1.20", 95, 110))]
    cells += [*line(20, ("A pear,", 0, 30), ("0.80", 95, 110)), *line(30, ("which is wrapped", 0, 60))]
    assert table_rows(rows, cells) == [["Name", "Price"], ["Apple", "1.20"], ["A pear, which is wrapped", "0.80"]]


def test_rows_that_were_stacked_are_taken_apart() -> None:
    stacked = [["North South", "209 2,303", "", "9 5"], ["East West", "98 452", "7 8", "3 4"]]
    cells = [
        *line(0, ("North", 0, 25), ("209", 60, 72), ("9", 150, 154)),
        *line(10, ("South", 0, 25), ("2,303", 52, 72), ("5", 150, 154)),
        *line(20, ("East", 0, 20), ("98", 64, 72), ("7", 100, 104), ("3", 150, 154)),
        *line(30, ("West", 0, 20), ("452", 60, 72), ("8", 100, 104), ("4", 150, 154)),
    ]
    assert table_rows(stacked, cells) == [
        ["North", "209", "", "9"],
        ["South", "2,303", "", "5"],
        ["East", "98", "7", "3"],
        ["West", "452", "8", "4"],
    ]


def test_cells_that_were_split_are_made_whole() -> None:
    split = [[f"Town {i}", "1.38 -", "1.48", "2.10"] for i in range(4)]
    cells = [c for i in range(4) for c in line(10 * i, (f"Town {i}", 0, 30), ("1.38 - 1.48", 60, 100), ("2.10", 120, 140))]
    assert table_rows(split, cells) == [[f"Town {i}", "1.38 - 1.48", "2.10"] for i in range(4)]


def test_nothing_drawn() -> None:
    assert table_rows([["a", "b"]], []) == [["a", "b"]]
    assert table_rows([], []) == []
