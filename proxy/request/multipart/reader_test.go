package multipart

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/textproto"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

type part struct {
	Name, Filename, ContentType, Body string
	File                              bool
}

func readAll(src io.Reader, boundary string, n int) ([]part, error) {
	r := NewReader(src, boundary)
	var out []part
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		var body []byte
		buf := make([]byte, n)
		for {
			m, err := r.Read(buf)
			body = append(body, buf[:m]...)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return out, err
			}
		}
		out = append(out, part{p.Name, p.Filename, p.ContentType, string(body), p.File})
	}
}

func crlf(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }

const plainForm = "--B\nContent-Disposition: form-data; name=\"model\"\n\nwhisper\n" +
	"--B\ncontent-disposition: FORM-DATA; filename=\"a b.wav\"; name=file\nContent-Type: audio/wav; x=1\n\nRIFF\r-\r\n--\n" +
	"--B\nContent-Disposition: form-data; name=\"empty\"\n\n\n--B--\n"

func TestReader(t *testing.T) {
	t.Parallel()
	want := []part{
		{Name: "model", Body: "whisper"},
		{Name: "file", File: true, Filename: "a_b.wav", ContentType: "audio/wav", Body: "RIFF\r-\r\r\n--"},
		{Name: "empty"},
	}
	for name, form := range map[string]string{
		"plain": crlf(plainForm), "line end first": "\r\n" + crlf(plainForm), "no line end last": strings.TrimSuffix(crlf(plainForm), "\r\n"),
		"two line ends last": crlf(plainForm) + "\r\n",
	} {
		for how, src := range map[string]io.Reader{
			"whole": strings.NewReader(form), "bytes": iotest.OneByteReader(strings.NewReader(form)), "data with EOF": iotest.DataErrReader(strings.NewReader(form)),
		} {
			got, err := readAll(src, "B", 3)
			if err != nil {
				t.Errorf("%s, %s: got the error %v, want none", name, how, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, %s: the parts differ (-want +got):\n%s", name, how, diff)
			}
		}
	}
}

func TestReaderSkipsUnreadParts(t *testing.T) {
	t.Parallel()
	form := crlf("--B\nContent-Disposition: form-data; name=a\n\n" + strings.Repeat("x\r\n--C", 100_000) + "\n--B\nContent-Disposition: form-data; name=b\n\n2\n--B--")
	r := NewReader(strings.NewReader(form), "B")
	for _, want := range []string{"a", "b"} {
		p, err := r.Next()
		if err != nil || p.Name != want {
			t.Fatalf("got the part %q, %v, want %q", p.Name, err, want)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Error("the end does not last:", err)
	}
}

func TestReaderRefuses(t *testing.T) {
	t.Parallel()
	head := "Content-Disposition: form-data; name=\"a\"\n"
	for _, c := range []struct{ name, form, reason string }{
		{"nothing", "", ReasonNoDelimiter},
		{"another boundary", "--C\n" + head + "\nx\n--C--", ReasonNoDelimiter},
		{"preamble", "hello\n--B\n" + head + "\nx\n--B--", ReasonNoDelimiter},
		{"half a boundary", "--", ReasonNoDelimiter},
		{"no last boundary", "--B\n" + head + "\nx\n", ReasonTruncatedForm},
		{"cut in the last boundary", "--B\n" + head + "\nx\n--B-", ReasonTruncatedForm},
		{"cut in the head", "--B\n" + head, ReasonTruncatedForm},
		{"cut after the head", "--B\n" + head + "\n", ReasonTruncatedForm},
		{"padding", "--B \n" + head + "\nx\n--B--", ReasonBadDelimiter},
		{"longer boundary", "--B\n" + head + "\nx\n--BB\n--B--", ReasonBadDelimiter},
		{"epilogue", "--B\n" + head + "\nx\n--B--\nGET / HTTP/1.1\n", ReasonTrailingBytes},
		{"half a line end last", "--B\n" + head + "\nx\n--B--\r", ReasonTrailingBytes},
		{"body is a boundary", "--B\n" + head + "\n--B\n" + head + "\nx\n--B--", ReasonBadDelimiter},
		{"no head", "--B\n\nx\n--B--", ReasonTruncatedForm},
		{"no name", "--B\nContent-Type: text/plain\n\nx\n--B--", ReasonNoName},
		{"nameless", "--B\nContent-Disposition: form-data\n\nx\n--B--", ReasonNoName},
		{"another disposition", "--B\nContent-Disposition: attachment; name=a\n\nx\n--B--", ReasonNoName},
		{"two names", "--B\nContent-Disposition: form-data; name=a; name=b\n\nx\n--B--", ReasonBadHeader},
		{"two dispositions", "--B\n" + head + head + "\nx\n--B--", ReasonBadHeader},
		{"odd name", "--B\nContent-Disposition: form-data; name=\"a\\\"b\"\n\nx\n--B--", ReasonBadName},
		{"empty name", "--B\nContent-Disposition: form-data; name=\"\"\n\nx\n--B--", ReasonBadName},
		{"name in pieces", "--B\nContent-Disposition: form-data; name*0=a\n\nx\n--B--", ReasonBadHeader},
		{"open quote", "--B\nContent-Disposition: form-data; name=\"a\n\nx\n--B--", ReasonBadHeader},
		{"folded", "--B\n" + head + "X: a\n b\n\nx\n--B--", ReasonBadHeader},
		{"blank before the colon", "--B\nContent-Disposition : form-data; name=a\n\nx\n--B--", ReasonBadHeader},
		{"control character", "--B\n" + head + "X: a\x00b\n\nx\n--B--", ReasonBadHeader},
		{"bare line end", "--B\n" + head + "X: a\rb\n\nx\n--B--", ReasonBadHeader},
		{"empty disposition", "--B\nContent-Disposition: \n\nx\n--B--", ReasonNoName},
		{"name too long", "--B\nContent-Disposition: form-data; name=" + strings.Repeat("n", maxName+1) + "\n\nx\n--B--", ReasonBadName},
		{"encoded", "--B\n" + head + "Content-Transfer-Encoding: base64\n\neA==\n--B--", ReasonTransferEncoded},
		{"large head", "--B\n" + head + "X: " + strings.Repeat("x", MaxHeader) + "\n\nx\n--B--", ReasonHeaderTooLarge},
		{"endless head", "--B\n" + head + strings.Repeat("X: y\n", MaxHeader), ReasonHeaderTooLarge},
		{"many parts", strings.Repeat("--B\n"+head+"\nx\n", MaxParts+1) + "--B--", ReasonTooManyParts},
	} {
		_, err := readAll(iotest.HalfReader(strings.NewReader(crlf(c.form))), "B", 100)
		var e *Error
		if !errors.As(err, &e) || e.Reason != c.reason {
			t.Errorf("%s: %v, want %q", c.name, err, c.reason)
		}
	}
}

// TestStandardReaderIsLooser shows why the reader in the standard library is not used. That reader
// accepts forms that two parsers could interpret differently.
func TestStandardReaderIsLooser(t *testing.T) {
	t.Parallel()
	head := "Content-Disposition: form-data; name=\"a\"\r\n"
	for _, c := range []struct{ name, form, reason string }{
		{"padding", "--B \r\n" + head + "\r\nx\r\n--B--", ReasonBadDelimiter},
		{"a line feed after the first delimiter", "--B\n" + head + "\nx\n--B--", ReasonBadDelimiter},
		{"a delimiter in the content", "--B\r\n" + head + "\r\nx\r\n--BB\r\n--B--", ReasonBadDelimiter},
		{"the body is a delimiter", "--B\r\n" + head + "\r\n--B\r\n" + head + "\r\nx\r\n--B--", ReasonBadDelimiter},
		{"folded", "--B\r\n" + head + "X: a\r\n b\r\n\r\nx\r\n--B--", ReasonBadHeader},
		{"a line feed in a head", "--B\r\n" + head + "X: a\nY: b\r\n\r\nx\r\n--B--", ReasonBadHeader},
		{"preamble", "x\r\n--B\r\n" + head + "\r\nx\r\n--B--", ReasonNoDelimiter},
		{"epilogue", "--B\r\n" + head + "\r\nx\r\n--B--\r\nGET / HTTP/1.1\r\n", ReasonTrailingBytes},
		{"large head", "--B\r\n" + head + "X: " + strings.Repeat("x", 1<<20) + "\r\n\r\nx\r\n--B--", ReasonHeaderTooLarge},
	} {
		_, err := readAll(strings.NewReader(c.form), "B", 100)
		var e *Error
		if !errors.As(err, &e) || e.Reason != c.reason {
			t.Errorf("%s: %v, want %q", c.name, err, c.reason)
		}
		std, parts := multipart.NewReader(strings.NewReader(c.form), "B"), 0
		for {
			p, err := std.NextRawPart()
			if errors.Is(err, io.EOF) && parts > 0 {
				break
			}
			if err == nil {
				_, err = io.Copy(io.Discard, p)
			}
			if err != nil {
				t.Fatalf("%s: the standard reader refuses it, too: %v", c.name, err)
			}
			parts++
		}
	}
}

func TestReaderAcceptsTheMaximum(t *testing.T) {
	t.Parallel()
	head := "Content-Disposition: form-data; name=\"a\"\r\nX: "
	full := head + strings.Repeat("x", MaxHeader-len(head)-4)
	form := strings.Repeat("--B\r\n"+full+"\r\n\r\nx\r\n", MaxParts) + "--B--"
	got, err := readAll(strings.NewReader(form), "B", 100)
	if err != nil || len(got) != MaxParts {
		t.Errorf("got %d parts, %v, want %d", len(got), err, MaxParts)
	}
}

// TestReaderAcceptsIdentityEncodings checks that encodings that do not change the body are accepted
// in upper and lower case, and that the longest name is accepted.
func TestReaderAcceptsIdentityEncodings(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("n", maxName)
	for _, encoding := range []string{"binary", "7bit", "8bit", "BINARY"} {
		form := "--B\nContent-Disposition: form-data; name=" + name + "\nContent-Transfer-Encoding: " + encoding + "\n\nx\n--B--"
		if got, err := readAll(strings.NewReader(crlf(form)), "B", 100); err != nil || len(got) != 1 || got[0].Name != name {
			t.Errorf("%s: got %d parts, %v, want one named %q", encoding, len(got), err, name)
		}
	}
}

// TestReaderReturnsSourceErrors checks that the reader returns an error from its source, and
// returns the same error on later calls.
func TestReaderReturnsSourceErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for n := range len(crlf(plainForm)) - 2 {
		r := NewReader(io.MultiReader(strings.NewReader(crlf(plainForm)[:n]), iotest.ErrReader(broken)), "B")
		for {
			if _, err := r.Next(); err != nil {
				if !errors.Is(err, broken) {
					t.Fatalf("after %d bytes: %v", n, err)
				}
				break
			}
		}
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, broken) {
			t.Fatalf("read after the failure: %v", err)
		}
	}
}

func TestBoundary(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"multipart/form-data; boundary=abc":                        "abc",
		"Multipart/Form-Data;BOUNDARY=\"a b\"":                     "!" + ReasonBadBoundary,
		"multipart/form-data; boundary=\"a:b/c\"; x=y":             "a:b/c",
		"multipart/form-data; charset=utf-8; boundary=a=b/c":       "a=b/c",
		"multipart/form-data; boundary=abc; ":                      "abc",
		"multipart/form-data":                                      "!" + ReasonNoBoundary,
		"multipart/form-data; boundary=":                           "!" + ReasonBadBoundary,
		"multipart/form-data; boundary=\"\"":                       "!" + ReasonBadBoundary,
		"multipart/form-data; boundary=\"abc":                      "!" + ReasonBadBoundary,
		"multipart/form-data; boundary=a; boundary=b":              "!" + ReasonBadBoundary,
		"multipart/form-data; boundary=a\"b":                       "!" + ReasonBadBoundary,
		"multipart/form-data; boundary=ü":                          "!" + ReasonBadBoundary,
		"multipart/form-data; boundary":                            "!" + ReasonBadBoundary,
		"multipart/mixed; boundary=abc":                            "!" + ReasonNotForm,
		"application/json":                                         "!" + ReasonNotForm,
		"":                                                         "!" + ReasonNotForm,
		"multipart/form-data; boundary=" + strings.Repeat("x", 70): strings.Repeat("x", 70),
		"multipart/form-data; boundary=" + strings.Repeat("x", 71): "!" + ReasonBadBoundary,
	} {
		got, err := ParseBoundary([]byte(in))
		var e *Error
		if errors.As(err, &e) {
			got = "!" + e.Reason
		}
		if got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestFilename(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`filename="speech.wav"`:                           "speech.wav",
		`filename=""`:                                     "",
		`filename="../../etc/pass wd.mp3"`:                "pass_wd.mp3",
		`filename="C:\dir\a.flac"`:                        "a.flac",
		`filename="a\"b.wav"`:                             "_b.wav",
		`filename=".wav"`:                                 "_wav",
		`filename*=UTF-8''na%C3%AFve.ogg`:                 "na_C3_AFve.ogg",
		`filename*=UTF-8''x.ogg; filename="y.ogg"`:        "y.ogg",
		`filename="y.ogg"; filename*=UTF-8''x.ogg`:        "y.ogg",
		`filename="` + strings.Repeat("x", 300) + `.wav"`: strings.Repeat("x", 60) + ".wav",
	} {
		got, err := readAll(strings.NewReader("--B\r\nContent-Disposition: form-data; name=file; "+in+"\r\n\r\nx\r\n--B--"), "B", 10)
		if err != nil || len(got) != 1 || got[0].Filename != want || !got[0].File {
			t.Errorf("%s: %+v, %v, want %q", in, got, err, want)
		}
	}
}

// FuzzReader compares this reader with the reader in the standard library. The standard reader must
// accept every form that this reader accepts, and must return the same names and bytes. The result
// must not depend on the sizes of the reads.
func FuzzReader(f *testing.F) {
	for _, s := range []string{plainForm, "--B--", "--B\nContent-Disposition: form-data; name=\"a\"; filename=\"\\\"\"\n\n\n--B--\n\n", "--B\nContent-Disposition: form-data; name=a\n\n\n--Bx\n--B--"} {
		f.Add([]byte(crlf(s)), uint64(1))
	}
	f.Fuzz(func(t *testing.T, form []byte, seed uint64) {
		got, err := readAll(bytes.NewReader(form), "B", 512)
		rng := rand.New(rand.NewPCG(seed, 1))
		again, err2 := readAll(&shortReads{form, rng}, "B", 1+rng.IntN(40))
		if (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
			t.Fatalf("in pieces %v, whole %v", err2, err)
		}
		if err != nil {
			return
		}
		if diff := cmp.Diff(got, again); diff != "" {
			t.Fatal(diff)
		}
		want := multipart.NewReader(bytes.NewReader(form), "B")
		for i := range got {
			p, err := want.NextRawPart()
			if err != nil {
				t.Fatalf("part %d is none for the standard library: %v", i, err)
			}
			body, err := io.ReadAll(p)
			if err != nil {
				t.Fatal(err)
			}
			if p.FormName() != got[i].Name || string(body) != got[i].Body {
				t.Fatalf("part %d is %q %q, the standard library's %q %q", i, got[i].Name, got[i].Body, p.FormName(), body)
			}
		}
		if _, err := want.NextRawPart(); !errors.Is(err, io.EOF) {
			t.Fatalf("the standard library finds another part: %v", err)
		}
	})
}

// FuzzWriter checks that the reader accepts every form that the standard library writes, as long as
// the form is within the limits.
func FuzzWriter(f *testing.F) {
	f.Add("model", []byte("whisper"), "a.wav", []byte("\r\n--B\r\n"))
	f.Fuzz(func(t *testing.T, name string, value []byte, filename string, file []byte) {
		if !validName([]byte(name)) || len(filename) > 1000 || strings.ContainsFunc(filename, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Skip()
		}
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		text, _ := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {`form-data; name="` + name + `"`}})
		_, _ = text.Write(value)
		upload, _ := w.CreateFormFile("file", filename)
		_, _ = upload.Write(file)
		_ = w.Close()
		boundary, err := ParseBoundary([]byte(w.FormDataContentType()))
		if err != nil {
			t.Fatal(err)
		}
		got, err := readAll(&b, boundary, 100)
		if err != nil || len(got) != 2 || got[0].Body != string(value) || got[1].Body != string(file) {
			t.Fatalf("got %+v, %v, want the value and the file", got, err)
		}
	})
}

// shortReads returns its bytes in pieces of random sizes.
type shortReads struct {
	data []byte
	rng  *rand.Rand
}

func (s *shortReads) Read(p []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1+s.rng.IntN(9))], s.data)
	s.data = s.data[n:]
	return n, nil
}

func BenchmarkReader(b *testing.B) {
	form := []byte("--B\r\nContent-Disposition: form-data; name=file; filename=a\r\n\r\n" + strings.Repeat("\r\x00audio data that is no text\xff", 40_000) + "\r\n--B--")
	buf := make([]byte, 32<<10)
	b.SetBytes(int64(len(form)))
	b.ReportAllocs()
	for b.Loop() {
		r := NewReader(bytes.NewReader(form), "B")
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
		for {
			if _, err := r.Read(buf); err != nil {
				break
			}
		}
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			b.Fatal(err)
		}
	}
}
