package websocket

import (
	"strconv"

	"github.com/valyala/fasthttp"

	"penstock/proxy/request/endpoint"
	"penstock/translate/apierr"
	"penstock/translate/jsonx"
)

const (
	codePreviousNotFound = "previous_response_not_found"
	codeConnExpired      = "websocket_connection_limit_reached"
	codeTooManyLanes     = "websocket_stream_limit_reached"
	codeInvalidLane      = "invalid_stream_id"
	// codeQueueFull is not in OpenAI's protocol, which does not limit the queue.
	codeQueueFull         = "websocket_queue_full"
	codeSteerUnsupported  = "steering_not_supported"
	codeCancelUnsupported = "cancel_not_supported"
)

var (
	errPreviousNotFound = apierr.Invalid("previous_response_id", codePreviousNotFound,
		"This connection has no such response to continue from: it keeps the last one of each stream_id that has not failed, up to the size limit of one request for all of them. Send the whole conversation without previous_response_id.")
	errConnExpired = apierr.Invalid("", codeConnExpired,
		"The WebSocket connection has lasted 60 minutes, which is its limit. Connect again.")
	errTooManyLanes = apierr.Invalid("stream_id", codeTooManyLanes,
		"This connection has reached its limit of different stream_ids (32). Use one of them, or connect again.")
	errInvalidLane = apierr.Invalid("stream_id", codeInvalidLane,
		"stream_id must be a string of 1 to 256 letters, digits, underscores, hyphens and periods.")
	errCancelUnsupported = apierr.Invalid("type", codeCancelUnsupported,
		"A response cannot be cancelled by a message. Close the connection: that cancels what runs.")
	errQueueFull = apierr.New(fasthttp.StatusTooManyRequests, codeQueueFull,
		"This connection has reached its limit of waiting calls (16). Wait for a response.")
	errQueueTooLarge = apierr.New(fasthttp.StatusTooManyRequests, codeQueueFull,
		"Together, the calls waiting on this connection would exceed the size limit of one request. Wait for a response.")
)

// conversationTooLarge returns the error for a turn that exceeds the limit together with the
// conversation that it continues.
func conversationTooLarge(limit int64) *apierr.Error {
	return apierr.New(fasthttp.StatusRequestEntityTooLarge, apierr.CodeRequestTooLarge,
		"The conversation of this connection is larger than the limit of %d bytes: begin a new one, or compact it and send it without previous_response_id.", limit)
}

// laneMessagePrefix returns the bytes at the start of every message on a named lane. For the
// default lane, it returns nil.
func laneMessagePrefix(lane string) []byte {
	if lane == "" {
		return nil
	}
	return appendLane([]byte{'{'}, lane)
}

type headerField struct{ name, value string }

func appendHeadersMember(dst []byte, headers []headerField) []byte {
	dst = append(dst, `"headers":{`...)
	for i, h := range headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsonx.AppendStringS(dst, h.name), ':')
		dst = jsonx.AppendStringS(dst, h.value)
	}
	return append(dst, `},`...)
}

func selectResponseHeaders(from *fasthttp.Response, names ...string) (headers []headerField) {
	for _, name := range names {
		if value := from.Header.Peek(name); len(value) > 0 {
			headers = append(headers, headerField{name, string(value)})
		}
	}
	return headers
}

func errorMessage(lane string, from *fasthttp.Response) []byte {
	headers := selectResponseHeaders(from, "X-Request-Id", fasthttp.HeaderRetryAfter, "X-Should-Retry", endpoint.HeaderCallRetained)
	return appendError(nil, lane, from.StatusCode(), from.Body(), headers)
}

func appendError(dst []byte, lane string, status int, body []byte, headers []headerField) []byte {
	dst = strconv.AppendInt(append(dst, `{"type":"error","status":`...), int64(status), 10)
	dst = appendLane(append(dst, ','), lane)
	if len(headers) > 0 {
		dst = appendHeadersMember(dst, headers)
	}
	return append(dst, body[1:]...)
}

// steerFailedMessage returns the response to response.steer. The response contains the input of the
// request, so that the client can send this input in a response.create.
func steerFailedMessage(d *jsonx.Doc) []byte {
	dst := []byte(`{"type":"response.steer.failed","sequence_number":0,"error":{"type":"invalid_request_error","code":"`)
	dst = append(dst, codeSteerUnsupported+`","message":"Engines cannot be steered here. Send the input in a response.create."},"steer":{`...)
	for i, name := range [...]string{"previous_response_id", "input"} {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), name...), `":`...)
		if v := d.Root().Get(name); v.Exists() {
			dst = append(dst, v.Raw()...)
		} else {
			dst = append(dst, `null`...)
		}
	}
	return append(dst, `}}`...)
}

func appendLane(dst []byte, lane string) []byte {
	if lane == "" {
		return dst
	}
	return append(append(append(dst, `"stream_id":"`...), lane...), `",`...)
}
