package plaintext

import (
	"strings"
	"unicode"
)

// wideRunes lists the characters that occupy two terminal cells: East Asian scripts and pictographs
// (Unicode's East_Asian_Width W and F).
var wideRunes = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x1100, 0x115f, 1},
		{0x231a, 0x231b, 1},
		{0x2329, 0x232a, 1},
		{0x23e9, 0x23ec, 1},
		{0x23f0, 0x23f0, 1},
		{0x23f3, 0x23f3, 1},
		{0x25fd, 0x25fe, 1},
		{0x2614, 0x2615, 1},
		{0x2648, 0x2653, 1},
		{0x267f, 0x267f, 1},
		{0x2693, 0x2693, 1},
		{0x26a1, 0x26a1, 1},
		{0x26aa, 0x26ab, 1},
		{0x26bd, 0x26be, 1},
		{0x26c4, 0x26c5, 1},
		{0x26ce, 0x26ce, 1},
		{0x26d4, 0x26d4, 1},
		{0x26ea, 0x26ea, 1},
		{0x26f2, 0x26f3, 1},
		{0x26f5, 0x26f5, 1},
		{0x26fa, 0x26fa, 1},
		{0x26fd, 0x26fd, 1},
		{0x2705, 0x2705, 1},
		{0x270a, 0x270b, 1},
		{0x2728, 0x2728, 1},
		{0x274c, 0x274c, 1},
		{0x274e, 0x274e, 1},
		{0x2753, 0x2755, 1},
		{0x2757, 0x2757, 1},
		{0x2795, 0x2797, 1},
		{0x27b0, 0x27b0, 1},
		{0x27bf, 0x27bf, 1},
		{0x2b1b, 0x2b1c, 1},
		{0x2b50, 0x2b50, 1},
		{0x2b55, 0x2b55, 1},
		{0x2e80, 0x303e, 1},
		{0x3041, 0x4dbf, 1},
		{0x4e00, 0xa4cf, 1},
		{0xa960, 0xa97f, 1},
		{0xac00, 0xd7a3, 1},
		{0xf900, 0xfaff, 1},
		{0xfe10, 0xfe19, 1},
		{0xfe30, 0xfe6f, 1},
		{0xff01, 0xff60, 1},
		{0xffe0, 0xffe6, 1},
	},
	R32: []unicode.Range32{
		{0x16fe0, 0x18d08, 1},
		{0x1aff0, 0x1b2fb, 1},
		{0x1f004, 0x1f004, 1},
		{0x1f0cf, 0x1f0cf, 1},
		{0x1f18e, 0x1f18e, 1},
		{0x1f191, 0x1f19a, 1},
		{0x1f200, 0x1f320, 1},
		{0x1f32d, 0x1f335, 1},
		{0x1f337, 0x1f37c, 1},
		{0x1f37e, 0x1f393, 1},
		{0x1f3a0, 0x1f3ca, 1},
		{0x1f3cf, 0x1f3d3, 1},
		{0x1f3e0, 0x1f3f0, 1},
		{0x1f3f4, 0x1f3f4, 1},
		{0x1f3f8, 0x1f43e, 1},
		{0x1f440, 0x1f440, 1},
		{0x1f442, 0x1f4fc, 1},
		{0x1f4ff, 0x1f53d, 1},
		{0x1f54b, 0x1f54e, 1},
		{0x1f550, 0x1f567, 1},
		{0x1f57a, 0x1f57a, 1},
		{0x1f595, 0x1f596, 1},
		{0x1f5a4, 0x1f5a4, 1},
		{0x1f5fb, 0x1f64f, 1},
		{0x1f680, 0x1f6c5, 1},
		{0x1f6cc, 0x1f6cc, 1},
		{0x1f6d0, 0x1f6d2, 1},
		{0x1f6d5, 0x1f6df, 1},
		{0x1f6eb, 0x1f6ec, 1},
		{0x1f6f4, 0x1f6fc, 1},
		{0x1f7e0, 0x1f7f0, 1},
		{0x1f90c, 0x1f93a, 1},
		{0x1f93c, 0x1f945, 1},
		{0x1f947, 0x1f9ff, 1},
		{0x1fa70, 0x1faff, 1},
		{0x20000, 0x3fffd, 1},
	},
}

// RuneCells returns how many terminal cells a character occupies. A combining mark occupies 0 cells, a
// wide character 2, and any other character 1.
func RuneCells(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.Is(wideRunes, r):
		return 2
	}
	return 1
}

// LineCells returns how many terminal cells a line occupies.
func LineCells(s string) (n int) {
	for _, r := range s {
		n += RuneCells(r)
	}
	return n
}

// Truncate truncates a line to the given number of cells. A truncated line ends with an ellipsis.
func Truncate(s string, cells int) string {
	if LineCells(s) <= cells {
		return s
	}
	n := 0
	for i, r := range s {
		if n += RuneCells(r); n > cells-1 {
			return s[:i] + strings.Repeat("…", min(1, max(0, cells)))
		}
	}
	return s
}

// Pad pads a line with spaces to the given number of cells. If number is true, it adds the spaces
// on the left; otherwise, on the right. Pad truncates a longer line.
func Pad(s string, cells int, number bool) string {
	s = Truncate(s, cells)
	blanks := strings.Repeat(" ", max(0, cells-LineCells(s)))
	if number {
		return blanks + s
	}
	return s + blanks
}

// WrapText breaks a text into lines of at most the given number of cells. It breaks lines at spaces, or
// within a word that is too long. All lines except the first are indented.
func WrapText(s string, cells int) (lines []string) {
	cells = max(4, cells)
	rest, indent := s, ""
	for {
		if LineCells(rest) <= cells-len(indent) {
			return append(lines, indent+rest)
		}
		n, end, blank := 0, 0, 0
		for i, r := range rest {
			if r == ' ' {
				blank = i
			}
			if n += RuneCells(r); n > cells-len(indent) {
				end = i
				break
			}
		}
		if blank > 0 {
			end = blank
		}
		lines = append(lines, indent+strings.TrimRight(rest[:end], " "))
		rest, indent = strings.TrimLeft(rest[end:], " "), "  "
	}
}
