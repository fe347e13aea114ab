package proxy

import (
	"bytes"

	"penstock/config"
	"penstock/translate/audio"
	"penstock/upstreams"
	"penstock/upstreams/http1/httptoken"
)

// endpointSpeech is POST /v1/audio/speech: JSON in, audio out. The audio is passed on as it is
// made; only a client of HTTP/1.0, which could not tell where it ends, gets it whole.
var endpointSpeech = &endpoint{
	path:           "/v1/audio/speech",
	operation:      config.OpSpeech,
	dialect:        dialectSpeech,
	nonChat:        true,
	binaryResponse: true,
	pool:           upstreams.PoolAudio,
	decode: func(c *Call, body []byte) error {
		s := new(audio.Speech)
		if err := s.Decode(body); err != nil {
			return err
		}
		c.payload = jsonPayload{Request: &s.Request}
		c.media = s.ContentType()
		c.record.Stream = c.ctx.Request.Header.IsHTTP11()
		return nil
	},
	answer: func(*Call) {},
	unary: func(c *Call, dst, body []byte) ([]byte, error) {
		if len(body) == 0 || !c.attempt.x.Framed() {
			return dst, errNoAudio
		}
		return append(dst, body...), nil
	},
}

var dialectSpeech = &dialect{name: "speech", appendError: chatError, prompt: "input"}

// audioType reports whether a 200 of that type may be audio: anything but what is certain to be
// something else. Engines call audio by many names, and by none.
func audioType(contentType []byte) bool {
	for _, other := range [...]string{"text/", "application/json", "application/problem+json", "application/xml"} {
		if len(contentType) >= len(other) && httptoken.EqualFold(contentType[:len(other)], other) {
			return false
		}
	}
	return !bytes.HasSuffix(contentType, []byte("+json"))
}
