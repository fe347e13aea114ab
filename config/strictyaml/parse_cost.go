package strictyaml

import (
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// The parser's memory grows with the square of each of these numbers: levels (because every node
// stores its path), members of a mapping, and documents. A file is therefore split into tokens
// first, at a constant cost per token, and checked before it is parsed. No reasonable configuration
// comes close to these limits.
const (
	maxNestingDepth   = 64      // levels of nesting
	maxStructureChars = 1 << 19 // structural characters; an API key has about ten
	maxMembers        = 1000    // members in a mapping
	maxDocuments      = 16
	maxBlankLines     = 200      // consecutive empty lines; after a block text, their cost is quadratic
	maxTotalPathBytes = 64 << 20 // bytes of all paths in total
)

// tooLargeError is the error for a file that is too expensive to parse.
type tooLargeError struct {
	at  *token.Token // position for the excerpt, or nil
	why string
}

func (e *tooLargeError) Error() string { return e.why }

// splitTokens splits src into tokens. It returns an error if there are too many.
func splitTokens(src string) (all token.Tokens, err error) {
	if countStructuralChars(src) > maxStructureChars {
		return nil, &tooLargeError{why: "the file has too many values"}
	}
	if line := findLongBlankLineRun(src); line > 0 {
		at := &token.Token{Position: &token.Position{Line: line, Column: 1}}
		return nil, &tooLargeError{at, fmt.Sprintf("more than %d empty lines follow each other: take them out", maxBlankLines)}
	}
	var s scanner.Scanner
	s.Init(src)
	var o parseCost
	for {
		part, err := s.Scan()
		if err == io.EOF { //nolint:errorlint // the library's lexer returns io.EOF unwrapped
			return all, nil
		}
		for _, t := range part {
			if why := o.countToken(t); why != "" {
				return nil, &tooLargeError{t, why}
			}
		}
		all.Add(part...)
	}
}

// countStructuralChars counts the characters that may be structural. There are about as many tokens as
// such characters, and each token needs about 250 bytes.
func countStructuralChars(src string) (n int) {
	for i := range len(src) {
		switch src[i] {
		case '\n', '[', ']', '{', '}', ',', '&', '*', '!', '#', '%', '@', '`', '|', '>', '\'', '"':
			n++
		case ':', '-', '?':
			if i+1 == len(src) || strings.IndexByte(" \t\r\n,[]{}", src[i+1]) >= 0 {
				n++
			}
		}
	}
	return n
}

// findLongBlankLineRun returns the first line of a run of more than maxBlankLines empty lines, or 0.
func findLongBlankLineRun(src string) int {
	line, run := 0, 0
	for text := range strings.Lines(src) {
		line++
		if strings.Trim(text, " \t\r\n") != "" {
			run = 0
		} else if run++; run > maxBlankLines {
			return line - run + 1
		}
	}
	return 0
}

// parseCost tracks the structure that determines the parser's memory.
type parseCost struct {
	levels     []openCollection
	line, last int // line and length of the last token
	documents  int
	paths      int // bytes of all paths so far
}

// openCollection is an open mapping or list.
type openCollection struct {
	flow    bool // the level is in brackets
	rank    int  // indentation of a block; a list ranks higher than the mapping that contains it
	members int
	path    int // length of the collection's path
	key     int // length of the collection's newest key
}

// countToken counts a token. If a limit is exceeded, it returns the reason.
func (o *parseCost) countToken(t *token.Token) (why string) {
	first := t.Position.Line != o.line
	o.line = t.Position.Line
	last := o.last
	o.last = len(t.Value)
	switch t.Type { //nolint:exhaustive // all other types are values
	case token.CommentType:
		return ""
	case token.DocumentHeaderType, token.DocumentEndType:
		o.levels = o.levels[:0]
		if o.documents++; o.documents > maxDocuments {
			return "the file has too many documents: one file holds one"
		}
		return ""
	case token.SequenceEndType, token.MappingEndType:
		o.closeBracket()
		return ""
	case token.SequenceEntryType, token.MappingKeyType:
		first = true // more levels may begin on the same line
	}
	if n := len(o.levels); first && (n == 0 || !o.levels[n-1].flow) {
		o.countBlockStart(t)
	}
	switch t.Type { //nolint:exhaustive // as above
	case token.SequenceStartType, token.MappingStartType:
		o.pushCollection(openCollection{flow: true})
	case token.MappingValueType:
		if top := o.innermostCollection(); top != nil {
			if top.members++; top.members > maxMembers {
				return "a mapping has too many keys"
			}
			top.key = last
		}
	}
	if len(o.levels) > maxNestingDepth {
		return "the file nests too deeply"
	}
	if top := o.innermostCollection(); top != nil {
		if o.paths += top.path + top.key; o.paths > maxTotalPathBytes {
			return "the file's keys are too long for the number of values below them"
		}
	}
	return ""
}

func (o *parseCost) innermostCollection() *openCollection {
	if len(o.levels) == 0 {
		return nil
	}
	return &o.levels[len(o.levels)-1]
}

// countBlockStart handles the first token of a line or entry. It closes levels that are indented
// further.
func (o *parseCost) countBlockStart(t *token.Token) {
	rank := 2 * t.Position.Column
	if t.Type == token.SequenceEntryType {
		rank++
	}
	for o.innermostCollection() != nil && o.innermostCollection().rank > rank {
		o.levels = o.levels[:len(o.levels)-1]
	}
	switch top := o.innermostCollection(); {
	case top == nil || top.rank < rank:
		o.pushCollection(openCollection{rank: rank})
	case t.Type == token.SequenceEntryType:
		top.members, top.key = 0, 0 // the old values belong to the previous entry
	}
}

// pushCollection adds a level below the newest one.
func (o *parseCost) pushCollection(l openCollection) {
	const index = 8 // approximate length of a list position
	if top := o.innermostCollection(); top != nil {
		l.path = top.path + top.key + index
	}
	o.levels = append(o.levels, l)
}

// closeBracket handles a closing bracket. It ignores unmatched brackets, which the parser reports.
func (o *parseCost) closeBracket() {
	if top := o.innermostCollection(); top != nil && top.flow {
		o.levels = o.levels[:len(o.levels)-1]
	}
}
