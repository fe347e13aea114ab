package faults

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// These tests cover row 64: images that neither the edge nor an engine may fetch.

func TestFault64_ImageURLs(t *testing.T) {
	t.Parallel()
	trap, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { trap.Close() })
	fetched := make(chan struct{}, 1)
	go func() {
		if c, err := trap.Accept(); err == nil {
			c.Close()
			fetched <- struct{}{}
		}
	}()
	e := start(t, rig.Setup{Engines: []sim.Options{{Record: true}}, Model: "input_modalities: [text, image]"})
	for _, url := range []string{
		"http://example.com/x.png", "http://" + trap.Addr().String() + "/x.png", "file:///etc/passwd", "ftp://example.com/x.png", "gopher://x", "//example.com/x.png", "/etc/passwd", "x.png", "",
		"https://127.0.0.1/x.png", "https://10.0.0.1/x.png", "https://[::1]/x.png", "https://169.254.169.254/latest/meta-data", "https://2130706433/x.png", "https://0x7f000001/x", "https://0177.0.0.1/x", "https://127.1/x",
		"https://user:pw@example.com/x.png", "https://user@example.com/x.png", "https:///x.png", "https://", "HTTPS:example.com", "javascript:alert(1)", "data:text/html;base64,PGI+", "data:image/svg+xml;base64,PHN2Zy8+",
		"data:image/gif;base64,R0lGODlhAQABAAAAACw=", "data:image/png;base64,!!!", "data:image/png,raw", "data:image/png;base64,", "data:image/png;base64,aGVsbG8=", "https://exa mple.com/x", "https://example.com\\u0000/x", "https://localhost/x.png",
		strings.Replace(rig.PictureDataURL("jpeg"), "image/jpeg", "image/gif", 1),
	} {
		t.Run(fmt.Sprintf("%.50q", url), func(t *testing.T) {
			r := e.Post(rig.Chat.Path, rig.VisionBody(url, ""))
			r.T = t
			r.WantStatus(400)
			if !strings.Contains(r.Body, "messages[0].content[1].image_url") {
				t.Errorf("answer = %s, want messages[0].content[1].image_url", r.Body)
			}
			if url != "" && len(url) > 8 && strings.Contains(r.Body, url) {
				t.Error("the URL is echoed")
			}
		})
	}
	e.WantServedAtMost(t, 0)
	for _, url := range []string{"https://example.com/x.png", rig.PictureDataURL("png"), rig.PictureDataURL("jpeg")} {
		e.Post(rig.Chat.Path, rig.VisionBody(url, "")).WantStatus(200)
		if !strings.Contains(string(e.Engines[0].Stats().LastRequest.Body), url) {
			t.Errorf("the image did not reach the engine as it was: %.60q", url)
		}
	}
	select {
	case <-fetched:
		t.Error("an image was fetched")
	default:
	}
}
