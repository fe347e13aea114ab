package body

import (
	"crypto/rand"
	"errors"
	"io"
	"sync"

	"penstock/proxy/access/limit"
	"penstock/proxy/request/multipart"
	"penstock/translate/apierr"
	"penstock/translate/forward"
	"penstock/upstreams/http1/httptoken"
)

// FormFields interprets the fields of a form for an endpoint. When a part of the form arrives, Form
// calls AddTextField or BeginFile. At the end of the form, it calls Finish. The errors are
// *apierr.Error.
type FormFields interface {
	// AddTextField receives a text field and returns the name under which the field is forwarded. If the
	// name is empty, the field is dropped.
	AddTextField(name string, value []byte) (as string, err error)
	// BeginFile is AddTextField for a part that contains a file. Once the last byte of the file has
	// arrived, Form calls EndFile with the length of the file.
	BeginFile(name string) (as string, err error)
	EndFile(size int64) error
	// Finish validates the form as a whole and returns the fields to add to it.
	Finish() ([]forward.Field, error)
	// Model returns the client's model name, or nil if the model field has not arrived yet.
	Model() []byte
}

// Form rewrites a client's form for an engine while the form arrives. It stores the first
// formWindow bytes of the form, or more if the model is not known by then. As long as only stored
// bytes have been sent, the call can move to another engine. After that, every read for the engine
// reads from the client, so the edge is never more than one buffer ahead of the engine.
type Form struct {
	reservation Reservation
	source      *pacedReader
	fields      FormFields
	partReader  *multipart.Reader
	boundary    string

	value       []byte
	encoded     []byte // part headers and text fields for the engine
	encodedRead int    // number of bytes in encoded that have been read
	inFile      bool
	fileBytes   int64 // bytes of the file so far
	endWritten  bool  // whether the final boundary for the engine has been written
	endRead     bool  // whether the client's final boundary has been read
	isConsumed  bool  // whether the engine has received bytes that are not stored
	stored      [][]byte
	storedBytes int // total length of stored
}

const (
	// formWindow is how many bytes of a form are read before the call acquires a slot. A slow
	// client therefore does not occupy a slot while it sends these bytes. A form of at most
	// formWindow bytes can be sent to another engine.
	formWindow         = 256 << 10
	maxTextField       = 64 << 10
	maxPartHeaderBytes = 4 << 10 // maximum size of the part headers that the edge adds to a small form
)

var formWindowPool = sync.Pool{New: func() any { return new([formWindow]byte) }}

// Init prepares f to read a form.
func (f *Form) Init(from *RequestSource, fields FormFields, budget *limit.MemoryBudget) {
	*f = Form{
		fields: fields, boundary: "penstock" + rand.Text(),
		source: newPacedReader(from), reservation: Reservation{budget: budget, keyIncomplete: from.Reading},
	}
}

// ReadWindow reads the form until the model is known and formWindow bytes are stored, or until the
// form ends.
func (f *Form) ReadWindow(contentType []byte) error {
	boundary, err := multipart.ParseBoundary(contentType)
	if err == nil {
		f.partReader = multipart.NewReader(f.source, boundary)
		err = f.storeWindow()
	}
	if err != nil {
		return formError(err)
	}
	return nil
}

// IsFullyRead reports whether the client's form was read to its end.
func (f *Form) IsFullyRead() bool { return f.endRead }

// IsConsumed reports whether the form cannot be sent again, because bytes that are not stored have
// already been sent.
func (f *Form) IsConsumed() bool { return f.isConsumed }

// BytesRead returns how many bytes of the client's body were read.
func (f *Form) BytesRead() int64 { return f.source.total }

func formError(err error) *apierr.Error {
	var (
		own    *apierr.Error
		broken *multipart.Error
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &broken):
		return apierr.BadRequest("The form could not be read: " + broken.Reason + ".")
	}
	return FramingError(err)
}

func (f *Form) storeWindow() error {
	for f.fields.Model() == nil || f.storedBytes < formWindow {
		room, err := f.nextBuffer()
		if err != nil {
			return err
		}
		n, err := f.readRewritten(room)
		last := len(f.stored) - 1
		f.stored[last] = f.stored[last][:len(f.stored[last])+n]
		f.storedBytes += n
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// nextBuffer returns a buffer for the next bytes to store. It reserves the memory before it
// allocates a buffer.
func (f *Form) nextBuffer() ([]byte, error) {
	if n := len(f.stored); n > 0 {
		if b := f.stored[n-1]; len(b) < cap(b) {
			return b[len(b):cap(b)], nil
		}
	}
	size := formWindow
	if n := f.source.announced; n >= 0 && len(f.stored) == 0 {
		size = int(min(n+maxPartHeaderBytes, formWindow))
	}
	if !f.reservation.Reserve(int64(size)) {
		return nil, MemoryFullError()
	}
	if size == formWindow {
		b := formWindowPool.Get().(*[formWindow]byte)
		f.stored = append(f.stored, b[:0])
	} else {
		f.stored = append(f.stored, make([]byte, 0, size))
	}
	return f.stored[len(f.stored)-1][:size], nil
}

// readRewritten writes at least one byte to p, or returns io.EOF at the end of the form.
func (f *Form) readRewritten(p []byte) (int, error) {
	for {
		switch {
		case f.encodedRead < len(f.encoded):
			n := copy(p, f.encoded[f.encodedRead:])
			f.encodedRead += n
			return n, nil
		case f.endWritten:
			f.endRead = true
			return 0, io.EOF
		case !f.inFile:
			f.encoded, f.encodedRead = f.encoded[:0], 0
			if err := f.encodeNextPart(); err != nil {
				return 0, err
			}
			continue
		}
		n, err := f.partReader.Read(p)
		f.fileBytes += int64(n)
		if errors.Is(err, io.EOF) {
			f.inFile = false
			f.encoded, f.encodedRead = append(f.encoded[:0], "\r\n"...), 0
			err = f.fields.EndFile(f.fileBytes)
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (f *Form) encodeNextPart() error {
	p, err := f.partReader.Next()
	switch {
	case errors.Is(err, io.EOF):
		return f.encodeEnd()
	case err != nil:
		return err
	case p.File || isFilePart(p.ContentType):
		as, err := f.fields.BeginFile(p.Name)
		if err != nil {
			return err
		}
		f.inFile, f.fileBytes = true, 0
		f.encoded = appendFileHead(f.encoded, f.boundary, as, &p)
		return nil
	}
	if err := f.readTextField(); err != nil {
		return err
	}
	as, err := f.fields.AddTextField(p.Name, f.value)
	if err == nil && as != "" {
		f.encoded = appendField(f.encoded, f.boundary, as, f.value)
	}
	return err
}

// isFilePart reports whether a part with this Content-Type is a file. Some clients send a file
// without a file name.
func isFilePart(contentType string) bool {
	for _, kind := range [...]string{"audio/", "video/", "image/", "application/octet-stream"} {
		if len(contentType) >= len(kind) && httptoken.EqualFold(contentType[:len(kind)], kind) {
			return true
		}
	}
	return false
}

func (f *Form) readTextField() error {
	if f.value == nil {
		f.value = make([]byte, 0, 1<<10)
	}
	f.value = f.value[:0]
	for {
		if len(f.value) == cap(f.value) {
			f.value = append(f.value, 0)[:len(f.value)]
		}
		n, err := f.partReader.Read(f.value[len(f.value):cap(f.value)])
		f.value = f.value[:len(f.value)+n]
		switch {
		case len(f.value) > maxTextField:
			return apierr.BadRequest("The form could not be read: a text field is larger than 64 KiB.")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

func (f *Form) encodeEnd() error {
	fields, err := f.fields.Finish()
	if err != nil {
		return err
	}
	for _, add := range fields {
		f.encoded = appendField(f.encoded, f.boundary, add.Name, []byte(add.Value))
	}
	f.encoded = append(append(append(f.encoded, "--"...), f.boundary...), "--\r\n"...)
	f.endWritten = true
	return nil
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

// ContentType returns the Content-Type of the engine's form.
func (f *Form) ContentType() string { return "multipart/form-data; boundary=" + f.boundary }

// EngineForm returns the engine's form with the served model name as the first field. If the whole
// form is stored, EngineForm returns it in pieces, whose length is known and which can be sent
// again. Otherwise, EngineForm returns a reader for the whole form.
func (f *Form) EngineForm(served string) (pieces [][]byte, rest io.Reader) {
	pieces = append([][]byte{appendField(nil, f.boundary, "model", []byte(served))}, f.stored...)
	if f.endRead {
		return pieces, nil
	}
	return nil, &engineFormReader{form: f, stored: pieces}
}

// Release releases the stored bytes.
func (f *Form) Release() {
	for _, b := range f.stored {
		if cap(b) == formWindow {
			formWindowPool.Put((*[formWindow]byte)(b[:formWindow]))
		}
	}
	f.stored = nil
	f.reservation.MarkBodyComplete()
	f.reservation.release(f.reservation.reserved)
}

// engineFormReader reads the engine's form for one attempt. It reads the stored bytes first, then bytes
// from the client.
type engineFormReader struct {
	form   *Form
	stored [][]byte // stored bytes that have not been read yet
}

// Read implements io.Reader. Its errors are *apierr.Error.
func (r *engineFormReader) Read(p []byte) (int, error) {
	for len(r.stored) > 0 {
		n := copy(p, r.stored[0])
		if r.stored[0] = r.stored[0][n:]; len(r.stored[0]) == 0 {
			r.stored = r.stored[1:]
		}
		if n > 0 {
			return n, nil
		}
	}
	if !r.form.isConsumed {
		r.form.isConsumed = true
		r.form.Release()
	}
	n, err := r.form.readRewritten(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = formError(err)
	}
	return n, err
}
