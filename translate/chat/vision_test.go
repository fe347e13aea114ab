package chat

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/jpeg"
	"strings"
	"testing"

	"penstock/translate/apierr"
)

const webpURL = "data:image/webp;base64,UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="

func jpegOf(tb testing.TB, w, h int) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, w, h)), nil); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// withSegments inserts n bytes of application segments after the start of a JPEG, as cameras do.
func withSegments(b []byte, n int) []byte {
	out := append([]byte{}, b[:2]...)
	for n > 0 {
		size := min(n, 65_000)
		out = append(out, 0xff, 0xe1, byte((size+2)>>8), byte(size+2))
		out = append(out, make([]byte, size)...)
		n -= size
	}
	return append(out, b[2:]...)
}

func TestDataURLs(t *testing.T) {
	jpegData, pngData := jpegOf(t, 640, 480), pngOf(t, 33, 7, 0)
	b64 := base64.StdEncoding.EncodeToString
	cases := []struct {
		name, url string
		kind      string // empty if the image is rejected
		w, h      int
	}{
		{"jpeg", dataURL("image/jpeg", jpegData), "image/jpeg", 640, 480},
		{"jpg", dataURL("image/jpg", jpegData), "image/jpeg", 640, 480},
		{"png", dataURL("image/png", pngData), "image/png", 33, 7},
		{"webp", webpURL, "image/webp", 1, 1},
		{"upper case", "DATA:IMAGE/PNG;BASE64," + b64(pngData), "image/png", 33, 7},
		{"another type than declared", dataURL("image/png", jpegData), "image/jpeg", 640, 480},
		{"escaped slashes", strings.ReplaceAll(dataURL("image/png", pngData), "/", `\/`), "image/png", 33, 7},
		{"camera data", dataURL("image/jpeg", withSegments(jpegData, 900_000)), "image/jpeg", 640, 480},
		{"cut behind the header", dataURL("image/png", pngData[:40]), "image/png", 33, 7},

		{"too much camera data", dataURL("image/jpeg", withSegments(jpegData, 1<<20)), "", 0, 0},
		{"cut within the header", dataURL("image/png", pngData[:18]), "", 0, 0},
		{"gif", "data:image/gif;base64,R0lGODlhAQABAAAAACw=", "", 0, 0},
		{"gif under another name", "data:image/png;base64,R0lGODlhAQABAAAAACw=", "", 0, 0},
		{"svg", "data:image/svg+xml;base64,PHN2Zy8+", "", 0, 0},
		{"text", "data:text/plain;base64,aGVsbG8=", "", 0, 0},
		{"no type", "data:;base64,aGVsbG8=", "", 0, 0},
		{"no base64", "data:image/png,abc", "", 0, 0},
		{"parameters", "data:image/png;charset=utf-8;base64," + b64(pngData), "", 0, 0},
		{"no comma", "data:image/png;base64", "", 0, 0},
		{"empty", "data:image/png;base64,", "", 0, 0},
		{"no padding", dataURL("image/png", pngData[:40])[:len(dataURL("image/png", pngData[:40]))-1], "", 0, 0},
		{"other alphabet", dataURL("image/png", pngData) + "-_-_", "", 0, 0},
		{"line break", dataURL("image/png", pngData) + `\r\n\r\n`, "", 0, 0},
		{"padding inside", dataURL("image/png", pngData[:40]) + "AAAA", "", 0, 0},
		{"header of nothing", dataURL("image/png", []byte("\x89PNG\r\n\x1a\n0123456789012345678901234567890")), "", 0, 0},
		{"only padding", "data:image/png;base64,====", "", 0, 0},
	}
	var r Request
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := r.Decode([]byte(partBody(`{"type":"text","text":"Hi"},{"type":"image_url","image_url":{"url":"` + c.url + `"}}`)))
			if c.kind == "" {
				if e := requireInvalid(t, c.url, err); e.Code != apierr.CodeInvalidValue || e.Param != "messages[0].content[1].image_url.url" {
					t.Errorf("got %v, want an invalid value at the image's url", e)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			m := &r.Prompt.Images[0]
			if len(r.Prompt.Images) != 1 || m.Type != c.kind || m.Width != c.w || m.Height != c.h || m.Host != nil || m.Bytes != len(c.url) {
				t.Errorf("got %+v, want one %s of %d×%d", r.Prompt.Images, c.kind, c.w, c.h)
			}
			if m.Param() != "messages[0].content[1].image_url.url" {
				t.Errorf("got the param %s, want messages[0].content[1].image_url.url", m.Param())
			}
		})
	}
}

func TestImageURLs(t *testing.T) {
	accepted := map[string]string{ // maps a URL to its host
		"https://example.com/a.png":             "example.com",
		"HTTPS://Example.COM/a.png":             "Example.COM",
		"https://example.com":                   "example.com",
		"https://example.com?x=@":               "example.com",
		"https://example.com#x":                 "example.com",
		"https://example.com./a":                "example.com.",
		"https://example.com:8443/a?b=c%20d":    "example.com",
		"https://img_1.a-b.xn--bcher-kva.com/a": "img_1.a-b.xn--bcher-kva.com",
		"https://1.2.3.4.example.com/":          "1.2.3.4.example.com",
		"https://0xcafe.com/":                   "0xcafe.com",
	}
	refused := []string{
		"", "a.png", "//example.com/a", "http://example.com/a.png", "ftp://example.com/a", "file:///etc/passwd", "javascript:alert(1)",
		"https:example.com", "https:/example.com", "https://", "https:///a", "https://:443/", "https://?x", " https://example.com/",
		"https://user:pw@example.com/", "https://user@example.com/", "https://example.com@10.0.0.1/", "https://@example.com/",
		"https://10.0.0.1/", "https://10.0.0.1./", "https://127.1/", "https://2130706433/", "https://0x7f000001/", "https://0x7f.1/",
		"https://0177.0.0.1/", "https://[::1]/", "https://[::1]:443/", "https://[fe80::1%25eth0]/", "https://::1/", "https://example.0/",
		"https://localhost/", "https://LOCALHOST:8000/", "https://a.localhost/", "https://localhost./", "https://localhost.localdomain/",
		"https://example.com:0/", "https://example.com:65536/", "https://example.com:/", "https://example.com:8x/", "https://a:1:2/",
		"https://exa mple.com/", `https://example.com\\@10.0.0.1/`, `https://example.com/\u0000`, `https://example.com/\r\nHost: x`,
		"https://ex%61mple.com/", "https://ex\u0430mple.com/", "https://example.com/\u00e9", "https://-a.com/", "https://a-.com/",
		"https://a..com/", "https://.a.com/", "https://" + strings.Repeat("a", 64) + ".com/", "https://" + strings.Repeat("a.", 130) + "com/",
		"https://example.com/" + strings.Repeat("a", maxURL), "https://exa$mple.com/", "https://example.com,a/",
	}
	var r Request
	for url, host := range accepted {
		if err := r.Decode([]byte(partBody(`{"type":"image_url","image_url":"` + url + `"}`))); err != nil {
			t.Errorf("Decode with %s = %v, want success", url, err)
		} else if m := &r.Prompt.Images[0]; string(m.Host) != host || m.Type != "" || m.Pixels() != 0 || m.Param() != "messages[0].content[0].image_url" {
			t.Errorf("%s: got %+v, want the host %q", url, m, host)
		}
	}
	for _, url := range refused {
		err := r.Decode([]byte(partBody(`{"type":"image_url","image_url":"` + url + `"}`)))
		if e := requireInvalid(t, url, err); e.Code != apierr.CodeInvalidValue || e.Param != "messages[0].content[0].image_url" {
			t.Errorf("%s: got %v, want an invalid value at image_url", url, e)
		}
	}
}

func TestTooManyImages(t *testing.T) {
	const image = `{"type":"image_url","image_url":"https://example.com/a"}`
	var r Request
	if err := r.Decode([]byte(partBody(image + strings.Repeat(","+image, MaxImages-1)))); err != nil || len(r.Prompt.Images) != MaxImages {
		t.Fatalf("got %d images, error %v, want %d", len(r.Prompt.Images), err, MaxImages)
	}
	body := partBody(image + strings.Repeat(","+image, MaxImages))
	if e := requireInvalid(t, body, r.Decode([]byte(body))); e.Param != "messages[0].content[1000]" {
		t.Errorf("got %v, want an error at messages[0].content[1000]", e)
	}
}

func TestHostAllowed(t *testing.T) {
	hosts := []string{"cdn.example.com", "*.images.example.org"}
	for host, want := range map[string]bool{
		"cdn.example.com": true, "CDN.example.com": true, "cdn.example.com.": true, "a.images.example.org": true, "a.b.images.example.org": true,
		"example.com": false, "xcdn.example.com": false, "images.example.org": false, ".images.example.org": false, "evilimages.example.org": false,
		"cdn.example.com.evil.org": false,
	} {
		if got := hostAllowed(hosts, []byte(host)); got != want {
			t.Errorf("hostAllowed(%s) = %v, want %v", host, got, want)
		}
	}
}

// TestPrivateHosts checks that a host must be public unless the operator has allowed it.
func TestPrivateHosts(t *testing.T) {
	for host, private := range map[string]bool{
		"vault": true, "ip6-localhost": true, "ip6-loopback": true, "e1.": true, "metadata.google.internal": true,
		"kubernetes.default.svc.cluster.local": true, "Printer.LOCAL.": true, "a.localhost": true, "nas.home.arpa": true,
		"home.arpa": true, "example.com": false, "local.example.com": false, "xinternal.com": false, "a.arpa": false,
		"vault.secrets.svc": true, "wiki.corp": true, "router.lan": true, "nas.home": true, "a.private": true, "a.intranet": true,
	} {
		if got := (&ModelRules{}).hostRefusal([]byte(host), "images") != ""; got != private {
			t.Errorf("%s is refused: %v, want %v", host, got, private)
		}
		if text := (&ModelRules{ImageHosts: []string{strings.TrimSuffix(host, ".")}}).hostRefusal([]byte(host), "images"); text != "" {
			t.Errorf("%s is allowed, and %s", host, text)
		}
	}
}

// TestIsBase64 compares IsBase64 with the standard library for every byte at every position in the
// wide loop and after it.
func TestIsBase64(t *testing.T) {
	t.Run("as the processor can", testIsBase64)
	if hasVectorBase64 {
		hasVectorBase64 = false
		defer func() { hasVectorBase64 = true }()
		t.Run("without vectors", testIsBase64)
	}
}

func testIsBase64(t *testing.T) {
	base := []byte(strings.Repeat("ABCDwxyz0189+/Zz", 5) + "abcdefgh")
	if !IsBase64(base) {
		t.Fatal("refused")
	}
	for i := range base {
		for c := range 256 {
			s := bytes.Clone(base)
			s[i] = byte(c)
			_, err := base64.StdEncoding.DecodeString(string(s))
			want := err == nil && c != '\n' && c != '\r'
			if got := IsBase64(s); got != want {
				t.Fatalf("byte %#x at %d: %v, want %v", c, i, got, want)
			}
		}
	}
	for s, want := range map[string]bool{"": false, "A": false, "AAAA": true, "AAA=": true, "AA==": true, "A===": false, "====": false, "AA=A": false, "AAAAA": false} {
		if got := IsBase64([]byte(s)); got != want {
			t.Errorf("IsBase64(%q) = %v, want %v", s, got, want)
		}
	}
}
