package proxy

import (
	"crypto/rand"
	"errors"
	"io"
	"sync"

	"penstock/config"
	"penstock/proxy/multipart"
	"penstock/translate/apierr"
	"penstock/translate/audio"
	"penstock/translate/chat"
	"penstock/translate/forward"
	"penstock/upstreams/engine"
	"penstock/upstreams/http1"
)

// form is what the fields of an upload mean. Each is given as it comes, then End. Errors are
// *apierr.Error.
type form interface {
	// Text takes a text field and returns the name under which it is passed on, "" for one that is
	// not.
	Text(name string, value []byte) (as string, err error)
	// File takes a part with a file name likewise, and FileEnd the length of the file when it has
	// passed.
	File(name string) (as string, err error)
	FileEnd(size int64) error
	// End checks the whole and returns fields to add.
	End() ([]forward.Field, error)
	// Model is the name that the client wrote, nil until it has come; Stream, whether events were
	// asked for so far.
	Model() []byte
	Stream() bool
}

// upload is the payload of a multipart endpoint: the client's form on its way to an engine, read as
// it comes and written anew, with a boundary of our own and the served name in front. Its beginning
// is held: up to uploadWindow bytes, and as much more as comes before the model is known. While
// nothing behind that has been sent, the call can go to another engine. After it the form streams:
// each read of the engine's connection takes from the client's, so neither is ahead of the other by
// more than a buffer. Nothing is ever written to a disk.
type upload struct {
	call     *Call
	source   *uploadSource
	form     form
	parts    *multipart.Reader
	boundary string
	engine   *engine.Profile // it is being sent to

	value   []byte // of the text field that is being read
	made    []byte // for the engine and not taken yet: heads of parts, text fields
	taken   int    // of made
	inFile  bool
	size    int64 // of the file so far
	closed  bool  // the last boundary has been made
	ended   bool  // and taken: the client's body was read to its end
	spent   bool  // bytes behind what was held have been sent
	held    [][]byte
	holding int // bytes in held
}

const (
	// uploadWindow is how much of an upload has come before a slot is taken: a client that sends
	// slowly must not hold one from its first byte on, and a small file can go to a second engine.
	uploadWindow = 256 << 10
	maxTextField = 64 << 10
	formHeads    = 4 << 10 // what our heads may add to a small form
)

var windowPool = sync.Pool{New: func() any { return new([uploadWindow]byte) }}

// readUpload reads an upload, announced with n bytes (-1: chunked), until the model is known and
// the window is full or the body has ended.
func (c *Call) readUpload(n, limit int64) *apierr.Error {
	boundary, err := multipart.Boundary(c.ctx.Request.Header.ContentType())
	if err != nil {
		return c.closeAfterResponse(uploadError(err))
	}
	u := &upload{call: c, form: c.ep.form(c), boundary: "penstock" + rand.Text(), source: newUploadSource(c, n, limit)}
	u.parts = multipart.NewReader(u.source, boundary)
	c.upload, c.payload = u, u
	if err := u.hold(); err != nil {
		return c.closeAfterResponse(uploadError(err))
	}
	return nil
}

// uploadError is the client's error for one of reading its form.
func uploadError(err error) *apierr.Error {
	var (
		own    *apierr.Error
		broken *multipart.Error
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &broken):
		return badHead("The form could not be read: " + broken.Reason + ".")
	}
	return misframedBody(err)
}

// hold reads the beginning of the form into memory.
func (u *upload) hold() error {
	for u.form.Model() == nil || u.holding < uploadWindow {
		room, err := u.room()
		if err != nil {
			return err
		}
		n, err := u.make(room)
		last := len(u.held) - 1
		u.held[last] = u.held[last][:len(u.held[last])+n]
		u.holding += n
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// room returns where to put more of what is held. Its memory is reserved before it is there.
func (u *upload) room() ([]byte, error) {
	if n := len(u.held); n > 0 {
		if b := u.held[n-1]; len(b) < cap(b) {
			return b[len(b):cap(b)], nil
		}
	}
	size := uploadWindow
	if n := u.source.announced; n >= 0 && len(u.held) == 0 {
		size = int(min(n+formHeads, uploadWindow))
	}
	if !u.call.reserve(int64(size)) {
		return nil, bodyMemoryFull()
	}
	if size == uploadWindow {
		b := windowPool.Get().(*[uploadWindow]byte)
		u.held = append(u.held, b[:0])
	} else {
		u.held = append(u.held, make([]byte, 0, size))
	}
	return u.held[len(u.held)-1][:size], nil
}

// make puts the next bytes of the engine's form into p, at least one, or returns io.EOF at its end.
func (u *upload) make(p []byte) (int, error) {
	for {
		switch {
		case u.taken < len(u.made):
			n := copy(p, u.made[u.taken:])
			u.taken += n
			return n, nil
		case u.closed:
			u.ended = true
			return 0, io.EOF
		case !u.inFile:
			u.made, u.taken = u.made[:0], 0
			if err := u.next(); err != nil {
				return 0, err
			}
			continue
		}
		n, err := u.parts.Read(p)
		u.size += int64(n)
		if errors.Is(err, io.EOF) {
			u.inFile = false
			u.made, u.taken = append(u.made[:0], "\r\n"...), 0
			err = u.form.FileEnd(u.size)
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// next takes the next part of the client's form and makes the engine's from it.
func (u *upload) next() error {
	p, err := u.parts.Next()
	switch {
	case errors.Is(err, io.EOF):
		return u.end()
	case err != nil:
		return err
	case p.File:
		as, err := u.form.File(p.Name)
		if err != nil {
			return err
		}
		u.inFile, u.size = true, 0
		u.made = appendFileHead(u.made, u.boundary, as, &p)
		return nil
	}
	if err := u.readText(); err != nil {
		return err
	}
	as, err := u.form.Text(p.Name, u.value)
	if err == nil && as != "" {
		u.made = appendField(u.made, u.boundary, as, u.value)
	}
	return err
}

// readText reads the value of a text field.
func (u *upload) readText() error {
	if u.value == nil {
		u.value = make([]byte, 0, 1<<10)
	}
	u.value = u.value[:0]
	for {
		if len(u.value) == cap(u.value) {
			u.value = append(u.value, 0)[:len(u.value)]
		}
		n, err := u.parts.Read(u.value[len(u.value):cap(u.value)])
		u.value = u.value[:len(u.value)+n]
		switch {
		case len(u.value) > maxTextField:
			return badHead("The form could not be read: a text field is larger than 64 KiB.")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// end checks the whole form and makes the end of the engine's.
func (u *upload) end() error {
	fields, err := u.form.End()
	if err != nil {
		return err
	}
	if err := u.mayStream(); err != nil {
		return err
	}
	for _, f := range fields {
		u.made = appendField(u.made, u.boundary, f.Name, []byte(f.Value))
	}
	u.made = append(append(append(u.made, "--"...), u.boundary...), "--\r\n"...)
	u.closed = true
	return nil
}

// mayStream refuses events that were asked for behind the file, when the engine that is getting it
// has none.
func (u *upload) mayStream() error {
	switch {
	case !u.form.Stream():
		return nil
	case !u.call.ctx.Request.Header.IsHTTP11():
		return httpVersion("A stream needs HTTP/1.1.")
	case u.engine != nil && !u.engine.Has(config.QuirkStreamsTranscriptions):
		return noStreams()
	}
	return nil
}

func noStreams() *apierr.Error {
	return apierr.Invalid("stream", apierr.CodeUnsupportedParameter, "stream must be false or absent: the engines of this model give transcriptions as a whole.")
}

func appendField(dst []byte, boundary, name string, value []byte) []byte {
	dst = append(append(append(dst, "--"...), boundary...), "\r\nContent-Disposition: form-data; name=\""...)
	dst = append(append(dst, name...), "\"\r\n\r\n"...)
	return append(append(dst, value...), "\r\n"...)
}

func appendFileHead(dst []byte, boundary, name string, p *multipart.Part) []byte {
	filename, kind := p.Filename, p.ContentType
	if filename == "" {
		filename = "file"
	}
	if kind == "" {
		kind = "application/octet-stream"
	}
	dst = append(append(append(dst, "--"...), boundary...), "\r\nContent-Disposition: form-data; name=\""...)
	dst = append(append(dst, name...), "\"; filename=\""...)
	dst = append(append(dst, filename...), "\"\r\nContent-Type: "...)
	return append(append(dst, kind...), "\r\n\r\n"...)
}

// wanted implements payload.
func (u *upload) wanted() []byte { return u.form.Model() }

// answersJSON reports whether the form is known to ask for JSON.
func (u *upload) answersJSON() bool {
	t, spoken := u.form.(*audio.Transcription)
	return u.ended && (!spoken || t.JSON())
}

// check implements payload: fields are checked as they come.
func (u *upload) check(*chat.ModelRules) error { return nil }

// estimate implements payload: audio and images have no tokens to count here.
func (u *upload) estimate(float64) (prompt, output int) { return 0, 0 }

// fill implements payload. A form that is held whole is sent with its length, and can be sent
// again.
func (u *upload) fill(r *http1.Request, engine *engine.Profile, served string) {
	u.engine = engine
	model := appendField(nil, u.boundary, "model", []byte(served))
	r.ContentType = "multipart/form-data; boundary=" + u.boundary
	if u.ended {
		r.Body = append([][]byte{model}, u.held...)
		return
	}
	r.BodyReader = &uploadBody{u: u, held: append([][]byte{model}, u.held...)}
}

// release implements payload: it gives back what is held.
func (u *upload) release() {
	for _, b := range u.held {
		if cap(b) == uploadWindow {
			windowPool.Put((*[uploadWindow]byte)(b[:uploadWindow]))
		}
	}
	u.held = nil
	u.call.record.BytesIn = u.source.total
}

// uploadBody reads the engine's form for one attempt: what is held, and behind it what comes.
type uploadBody struct {
	u    *upload
	held [][]byte // not read yet
}

// Read implements io.Reader. Its errors are *apierr.Error.
func (b *uploadBody) Read(p []byte) (int, error) {
	for len(b.held) > 0 {
		n := copy(p, b.held[0])
		if b.held[0] = b.held[0][n:]; len(b.held[0]) == 0 {
			b.held = b.held[1:]
		}
		if n > 0 {
			return n, nil
		}
	}
	if !b.u.spent {
		b.u.spent = true
		b.u.call.releaseBody()
	}
	n, err := b.u.make(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = uploadError(err)
	}
	return n, err
}

var (
	_ form = (*audio.Transcription)(nil)
	_ form = (*forward.Edit)(nil)
)
