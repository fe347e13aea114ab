package proxy

import (
	"penstock/proxy/snapshot"
	"penstock/upstreams"
)

// endpoint is one generation endpoint as data: the pipeline is the same for all, these functions
// are what differs.
type endpoint struct {
	path      string // public path
	operation string // what a key's scope calls it (config.Op…)
	dialect   *dialect
	listedAs  string // the path that a model's supported_endpoints has for it; empty: its own
	// lowerEffort makes a reasoning effort that the model does not offer the nearest lower one,
	// instead of an error.
	lowerEffort bool

	// enginePath is the profile's word for the engine's path where it is not the operation.
	enginePath string
	// nonChat marks an endpoint that is not chat underneath: its decode sets c.payload and
	// c.record.Stream. pool is the pool that its calls count in. binaryResponse says that its
	// answers are bytes, neither JSON nor events.
	nonChat        bool
	pool           upstreams.Pool
	binaryResponse bool
	// form makes the rules of a multipart endpoint, which has the larger body limit; nil on the
	// others. Its fields are read and checked before decode.
	form func(c *Call) form

	// decode reads the body into c.chat or c.payload and validates what needs no model.
	decode func(c *Call, body []byte) error
	// resolved applies to a payload what the endpoint wants of its model; may be nil.
	resolved func(c *Call) error
	// native relays the endpoint's own dialect to engines that may speak it; nil: it is always
	// translated.
	native *native
	// explain puts an error about the chat request in the words of the dialect; nil: they are the
	// same.
	explain func(c *Call, err error) error
	// local answers without dispatch once the call is admitted. Its prompt is held against the
	// key's tokens and not charged. nil: the call goes to an engine.
	local func(c *Call) *failure
	// answer prepares the call for the engine's reply once the model is known.
	answer func(c *Call)
	// unary appends the client's answer for a unary chat completion.
	unary func(c *Call, dst, completion []byte) ([]byte, error)
	// forwards reports whether an answer is only passed on, so that a large one need not be held,
	// and whether it is JSON; nil: no answer is passed on. It is asked when the answer's head has
	// arrived.
	forwards func(c *Call) (isJSON, ok bool)
}

// pathOp is the operation by which a profile names the engine's path.
func (ep *endpoint) pathOp() string {
	if ep.enginePath != "" {
		return ep.enginePath
	}
	return ep.operation
}

// servedBy reports whether a model answers on the endpoint.
func (ep *endpoint) servedBy(m *snapshot.Model) bool {
	return m.Serves(ep.path) || ep.listedAs != "" && m.Serves(ep.listedAs)
}
