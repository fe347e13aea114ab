package proxy

import (
	"penstock/config"
	"penstock/translate"
	"penstock/translate/audio"
	"penstock/translate/forward"
	"penstock/upstreams"
)

// endpointTranscriptions is POST /v1/audio/transcriptions: a form in; JSON, text or events out.
var endpointTranscriptions = &endpoint{
	path:      "/v1/audio/transcriptions",
	operation: config.OpTranscriptions,
	dialect:   dialectTranscription,
	nonChat:   true,
	pool:      upstreams.PoolAudio,
	form:      func(c *Call) form { return &audio.Transcription{Refuse: c.snap.Refused} },
	decode:    decodeUpload,
	resolved:  onlyStreamers,
	answer: func(c *Call) {
		if c.record.Stream {
			s := new(forward.Stream)
			s.Reset(c.model.Config.ID, 0)
			if c.upload.form.(*audio.Transcription).PlainText() {
				s.PlainText()
			}
			c.stream = s
		}
	},
	unary: func(c *Call, dst, body []byte) ([]byte, error) {
		if !c.upload.ended { // what the answer should be is not known yet
			return dst, &translate.BadAnswer{Reason: "an answer before the end of the request"}
		}
		t := c.upload.form.(*audio.Transcription)
		c.media = t.ContentType()
		if t.JSON() {
			return passOn(c, dst, body)
		}
		return appendTranscript(c, dst, body)
	},
	forwards: forwardsTranscript,
}

var dialectTranscription = &dialect{name: "transcription", appendError: chatError, prompt: "file"}

// forwardsTranscript reports whether a large transcript can be passed on: what form the client
// wants is known, and the engine gives it that. c.media is its type then.
func forwardsTranscript(c *Call) (isJSON, ok bool) {
	t := c.upload.form.(*audio.Transcription)
	if !c.upload.ended || c.record.Stream {
		return false, false
	}
	c.media = t.ContentType()
	isJSON = t.JSON()
	return isJSON, isJSON || c.attempt.x.Framed() && !structuredReply(c)
}

func structuredReply(c *Call) bool { return isJSON(c.attempt.x.Header("Content-Type")) }

// appendTranscript appends an answer that is text. One that cannot be told from a cut one is
// refused, and so is JSON: an engine that does not know the format, or an error.
func appendTranscript(c *Call, dst, body []byte) ([]byte, error) {
	if !c.attempt.x.Framed() {
		return dst, errTextOfUnknownLength
	}
	if structuredReply(c) {
		var a forward.Answer
		if err := a.Parse(body); err != nil {
			return dst, err
		}
		return dst, errWrongType
	}
	return append(dst, body...), nil
}

var errTextOfUnknownLength = &translate.BadAnswer{Reason: "text of unknown length"}

// decodeUpload is decode of the multipart endpoints: the form is checked while it is read.
func decodeUpload(c *Call, _ []byte) error {
	c.record.Stream = c.upload.form.Stream()
	return nil
}

// onlyStreamers leaves the engines out that have no events for a client that wants some.
func onlyStreamers(c *Call) error {
	if !c.record.Stream {
		return nil
	}
	targets := c.model.Route.Targets()
	for i := range targets {
		if up := targets[i].Upstream; !up.Engine().Has(config.QuirkStreamsTranscriptions) {
			c.tried = append(c.tried, up.ID())
		}
	}
	if len(c.tried) == len(targets) {
		return noStreams()
	}
	return nil
}
