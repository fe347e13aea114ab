package textgen

import (
	"strings"
	"unicode"

	"penstock/bench/sim/wire"
)

// Token is one token of text, together with its JSON form.
type Token struct{ Text, Escaped string }

// chainState is a state of the word chain. It determines which states may follow.
type chainState uint8

const (
	atStart chainState = iota
	atAdjective
	atNoun
	atVerb
	atAdverb
	atPlace
	atEnd
	stateCount
)

// wordChain maps each state to its words and to the states that may follow. More likely states are
// listed more than once. A few words contain characters that careless code mishandles: umlauts,
// three- and four-byte characters, quotes, a backslash.
var wordChain = [stateCount]struct {
	words []Token
	next  []chainState
}{
	atStart: {
		newTokens("the", "each", "every", "no", "one", "that", "this", "our", "another"),
		[]chainState{atAdjective, atAdjective, atNoun, atNoun, atNoun},
	},
	atAdjective: {
		newTokens("slow", "green", "quiet", "heavy", "narrow", "bright", "old", "steady", "naïve", "grey", "cold", "patient",
			"späte"),
		[]chainState{atNoun},
	},
	atNoun: {
		newTokens("turbine", "river", "gate", "engine", "valley", "keeper", "harbour", "lamp", "bridge", "channel", "mill", "café",
			"signal", "weir", "boat", "\"lock\"", "東京", "current", "wheel", "log\\book"),
		[]chainState{atVerb, atVerb, atVerb, atEnd},
	},
	atVerb: {
		newTokens("turns", "opens", "carries", "waits", "holds", "meets", "follows", "measures", "feeds", "sees", "crosses",
			"answers"),
		[]chainState{atAdverb, atPlace, atPlace, atStart, atEnd},
	},
	atAdverb: {
		newTokens("slowly", "twice", "again", "early", "often", "without noise", "at night", "quickly"),
		[]chainState{atPlace, atEnd, atEnd},
	},
	atPlace: {
		newTokens("before", "behind", "near", "under", "beside", "after", "towards", "around"),
		[]chainState{atStart},
	},
	atEnd: {
		[]Token{{".", "."}, {".", "."}, {".", "."}, {",", ","}, {".\n\n", `.\n\n`}, {";", ";"}, {" 🚲.", " 🚲."}},
		[]chainState{atStart},
	},
}

func newTokens(words ...string) []Token {
	ws := make([]Token, len(words))
	for i, w := range words {
		ws[i] = NewToken(" " + w)
	}
	return ws
}

// NewToken returns a token with the given text.
func NewToken(s string) Token { return Token{s, string(wire.AppendEscaped(nil, s))} }

// Generator returns one word after another. The words depend only on the seed.
type Generator struct {
	rng       uint64
	at        chainState
	nextStart wordStart
}

// wordStart describes what the next word starts: a text, a paragraph, a sentence, or none of them.
// This determines the case of the first letter and whether a space precedes the word.
type wordStart uint8

const (
	startsText wordStart = iota
	startsParagraph
	startsSentence
	startsNothing
)

// New returns a generator for a seed.
func New(seed uint64) Generator { return Generator{rng: seed} }

func (s *Generator) random(n int) int {
	s.rng += 0x9e3779b97f4a7c15
	return int(MixHash(s.rng, 0xd1342543de82ef95) % uint64(n))
}

// Next returns the next word, including the space before it.
func (s *Generator) Next() Token {
	was, here := s.at, &wordChain[s.at]
	i := s.random(len(here.words))
	w := here.words[i]
	s.at = here.next[s.random(len(here.next))]
	lead := s.nextStart
	s.nextStart = startsNothing
	if was == atEnd {
		switch {
		case strings.HasSuffix(w.Text, "\n"):
			s.nextStart = startsParagraph
		case strings.HasSuffix(w.Text, "."):
			s.nextStart = startsSentence
		}
		return w
	}
	switch lead {
	case startsText, startsParagraph:
		return capitalizedWords[was][i][1]
	case startsSentence:
		return capitalizedWords[was][i][0]
	}
	return w
}

// capitalizedWords contains the capitalized words, with and without a space before them.
var capitalizedWords = func() (all [stateCount][][2]Token) {
	for st := range all {
		for _, w := range wordChain[st].words {
			r := []rune(strings.TrimPrefix(w.Text, " "))
			r[0] = unicode.ToUpper(r[0])
			all[st] = append(all[st], [2]Token{NewToken(" " + string(r)), NewToken(string(r))})
		}
	}
	return all
}()

// SplitTokens splits a text into tokens, as the simulator counts them. A space starts a token, and
// a token has at most 12 characters.
func SplitTokens(s string) []Token {
	return splitBefore(s, func(r rune, before int) bool { return before > 0 && (r == ' ' || before >= 12) })
}

// Fragments splits a text into pieces of n characters, like the deltas of tool arguments and JSON.
func Fragments(s string, n int) []Token {
	return splitBefore(s, func(_ rune, before int) bool { return before == n })
}

// splitBefore splits a text before every character for which cut returns true. before is the length
// of the piece so far.
func splitBefore(s string, cut func(r rune, before int) bool) []Token {
	var ws []Token
	start, runes := 0, 0
	for i, r := range s {
		if cut(r, runes) {
			ws = append(ws, NewToken(s[start:i]))
			start, runes = i, 0
		}
		runes++
	}
	if start < len(s) {
		ws = append(ws, NewToken(s[start:]))
	}
	return ws
}
