package strictyaml

import (
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// The parser's memory grows with the square of three numbers: the levels (because every node keeps
// its path), the members of one mapping, and the documents. So a file is first cut into tokens, at
// a constant cost for each, and checked before it is parsed. No sane configuration comes close to
// these limits.
const (
	maxDepth     = 64      // levels of nesting
	maxMarks     = 1 << 19 // structural marks; an API key has about ten
	maxMembers   = 1000    // members of one mapping
	maxDocuments = 16
	maxBlank     = 200      // consecutive empty lines: after a block text their cost is quadratic
	maxPaths     = 64 << 20 // bytes of the paths of all values together
)

// tooLargeError is the error for a file that would cost the parser too much.
type tooLargeError struct {
	at  *token.Token // position of the excerpt; nil: no excerpt
	why string
}

func (e *tooLargeError) Error() string { return e.why }

// tokens cuts src into tokens, and fails if that gives too many for the parser.
func tokens(src string) (all token.Tokens, err error) {
	if structure(src) > maxMarks {
		return nil, &tooLargeError{why: "the file has too many values"}
	}
	if line := longBlank(src); line > 0 {
		at := &token.Token{Position: &token.Position{Line: line, Column: 1}}
		return nil, &tooLargeError{at, fmt.Sprintf("more than %d empty lines follow each other: take them out", maxBlank)}
	}
	var s scanner.Scanner
	s.Init(src)
	var o outline
	for {
		part, err := s.Scan()
		if err == io.EOF { //nolint:errorlint // as the library's own lexer does: it has no other end
			return all, nil
		}
		for _, t := range part {
			if why := o.add(t); why != "" {
				return nil, &tooLargeError{t, why}
			}
		}
		all.Add(part...)
	}
}

// structure counts possible structural marks. There are about as many tokens as marks, and each
// token takes about 250 bytes.
func structure(src string) (n int) {
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

// longBlank returns the first line of a run of too many empty lines, or 0 if there is no such run.
func longBlank(src string) int {
	line, run := 0, 0
	for text := range strings.Lines(src) {
		line++
		if strings.Trim(text, " \t\r\n") != "" {
			run = 0
		} else if run++; run > maxBlank {
			return line - run + 1
		}
	}
	return 0
}

// outline tracks, token by token, the structure on which the parser's memory depends.
type outline struct {
	levels     []level
	line, last int // of the last token: its line and its length
	documents  int
	paths      int // bytes
}

// level is an open mapping or list.
type level struct {
	flow    bool // it is in brackets
	rank    int  // of a block: its indent; a list ranks higher than the mapping that contains it
	members int
	path    int // length of its path
	key     int // of its newest key
}

// add counts the next token. If the token exceeds a bound, add returns the reason.
func (o *outline) add(t *token.Token) (why string) {
	first := t.Position.Line != o.line
	o.line = t.Position.Line
	last := o.last
	o.last = len(t.Value)
	switch t.Type { //nolint:exhaustive // the others are values
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
		o.block(t)
	}
	switch t.Type { //nolint:exhaustive // as above
	case token.SequenceStartType, token.MappingStartType:
		o.push(level{flow: true})
	case token.MappingValueType:
		if top := o.top(); top != nil {
			if top.members++; top.members > maxMembers {
				return "a mapping has too many keys"
			}
			top.key = last
		}
	}
	if len(o.levels) > maxDepth {
		return "the file nests too deeply"
	}
	if top := o.top(); top != nil {
		if o.paths += top.path + top.key; o.paths > maxPaths {
			return "the file's keys are too long for the number of values below them"
		}
	}
	return ""
}

func (o *outline) top() *level {
	if len(o.levels) == 0 {
		return nil
	}
	return &o.levels[len(o.levels)-1]
}

// block handles the first token of a line, or one that begins an entry: it closes levels with a
// larger indent.
func (o *outline) block(t *token.Token) {
	rank := 2 * t.Position.Column
	if t.Type == token.SequenceEntryType {
		rank++
	}
	for o.top() != nil && o.top().rank > rank {
		o.levels = o.levels[:len(o.levels)-1]
	}
	switch top := o.top(); {
	case top == nil || top.rank < rank:
		o.push(level{rank: rank})
	case t.Type == token.SequenceEntryType:
		top.members, top.key = 0, 0 // their counts belong to the last entry
	}
}

// push adds a level below the newest.
func (o *outline) push(l level) {
	const index = 8 // of a list's entry, about
	if top := o.top(); top != nil {
		l.path = top.path + top.key + index
	}
	o.levels = append(o.levels, l)
}

// closeBracket handles a closing bracket. The parser reports unmatched brackets.
func (o *outline) closeBracket() {
	if top := o.top(); top != nil && top.flow {
		o.levels = o.levels[:len(o.levels)-1]
	}
}
