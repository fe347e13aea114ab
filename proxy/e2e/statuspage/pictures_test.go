package statuspage

import (
	"bytes"
	"context"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"penstock/config/testkit/browser"
	"penstock/config/testkit/golden"
	"penstock/proxy/e2e/rig"
)

// pictures lists the pictures in documents, each with its document. Paths are relative to the root
// of the repository.
var pictures = []struct {
	file, document string
	draw           func(t *testing.T) []byte
}{
	{"proxy/testdata/page.png", "proxy/README.md", drawPage},
	{"bench/testdata/report.png", "bench/README.md", drawReport},
}

// TestPictures checks that the pictures in documents exist, are wide enough to read, and are small
// enough to download. The following command draws them again in a browser:
//
//	go test ./proxy/e2e/statuspage -run TestPictures -update
func TestPictures(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pictures {
		t.Run(filepath.Base(p.file), func(t *testing.T) {
			if golden.IsUpdating() {
				if err := os.WriteFile(filepath.Join(root, p.file), p.draw(t), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			picture, err := os.ReadFile(filepath.Join(root, p.file))
			if err != nil {
				t.Fatal(err)
			}
			size, err := png.DecodeConfig(bytes.NewReader(picture))
			if err != nil || size.Width != 1280 || size.Height < 700 || len(picture) > 400<<10 {
				t.Errorf("%d x %d pixels, %d bytes, %v", size.Width, size.Height, len(picture), err)
			}
			text, err := os.ReadFile(filepath.Join(root, p.document))
			link := "](" + strings.TrimPrefix(p.file, filepath.Dir(p.document)+"/") + ")"
			if err != nil || !strings.Contains(string(text), link) {
				t.Errorf("%s does not show it (%v)", p.document, err)
			}
		})
	}
}

// drawPage draws the top of the status page for the fleet with faults.
func drawPage(t *testing.T) []byte {
	l := startFleet(t)
	time.Sleep(80 * time.Second) // collects a minute of history
	tab, _ := l.openPage(1280, 1250, false)
	l.waitExpression(tab, "the failing model", `/model-21 fails \d+ % of its calls .*on gpu-21/.test(document.querySelector(".verdict").innerText)`)
	l.waitExpression(tab, "the full model", `document.querySelector('[data-model="model-25"]').innerText.includes("full")`)
	l.waitExpression(tab, "the dead upstream", `/gpu-29 is down/.test(document.querySelector("#events").innerText)`)
	return screenshot(t, tab)
}

// drawReport runs the failover scenario and draws the top of its report.
func drawReport(t *testing.T) []byte {
	page := filepath.Join(t.TempDir(), "failover.html")
	cmd := rig.Command(t, "bench", "--scenario", "failover", "-o", page)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tab := browser.OpenTab(t, 1280, 1250, false)
	if err := chromedp.Do(tab, chromedp.Navigate("file://"+page)); err != nil {
		t.Fatal(err)
	}
	return screenshot(t, tab)
}

// screenshot takes a screenshot of a tab.
func screenshot(t *testing.T, tab context.Context) []byte {
	t.Helper()
	picture, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	return picture
}
