package profile

import "penstock/bench/sim/textgen"

// PieceKind is what a token is of: a text, a thought or a part of a tool call.
type PieceKind uint8

// The kinds of pieces.
const (
	PieceText PieceKind = iota
	PieceThought
	PieceCall  // a call begins: name and id
	PieceArgs  // a fragment of its arguments
	PieceWhole // a call with all of its arguments
	PieceName  // the rest of its name
)

// Piece is one token.
type Piece struct {
	Kind PieceKind
	Call int
	textgen.Word
}

// ToolCall is a tool call to be made.
type ToolCall struct {
	ID, Name, Args string
	Head           int // the length of the name's first piece; 0: it comes in one
}
