package proxy

import (
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/sse"
)

// endpoint is one generation endpoint as data: the pipeline is the same for all, these functions are what differs.
type endpoint struct {
	path      string // public path
	operation string // what a key's scope calls it (config.Op…)
	dialect   *dialect
	upload    bool // multipart: the larger body limit

	// decode reads the body into c.chat and validates what needs no model. It sets c.stream's dialect.
	decode func(c *Call, body []byte) error
	// answer prepares the call for the engine's reply once the model is known.
	answer func(c *Call)
	// whole appends the client's answer for a whole chat completion.
	whole func(c *Call, dst, completion []byte) ([]byte, error)
}

// stream turns the engine's chat events into the client's dialect. One per call; not safe for concurrent use.
type stream interface {
	// Append adds the client's events for one engine event, none or more. Its errors are *chat.BadAnswer and
	// *chat.EngineError.
	Append(dst []byte, ev sse.Event) ([]byte, error)
	// Finish adds what ends the stream well, or fails with chat.ErrNoFinish when the engine ended too early.
	Finish(dst []byte) ([]byte, error)
	// Fail adds the in-band error that ends the stream badly.
	Fail(dst []byte, e *apierr.Error) []byte
	// Keepalive adds what tells a waiting client that the edge is alive.
	Keepalive(dst []byte) []byte
	// Whole reports whether every choice has its finish reason: the stream may end well from here on.
	Whole() bool
	// Done reports whether nothing more is wanted from the engine.
	Done() bool
	// Usage is the engine's count so far.
	Usage() chat.Usage
}
