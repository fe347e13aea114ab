// Package browser opens pages in a headless Chromium, for tests that need a browser.
//
// On a machine without a browser, such tests are skipped with a message. If CI is set in the
// environment, the tests fail instead, so that a pipeline cannot skip them unnoticed.
package browser

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// browserPrograms lists possible names of the browser's executable. PENSTOCK_CHROMIUM takes
// precedence.
var browserPrograms = []string{
	"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome",
	"headless-shell",
}

// FindChromium returns the path of a Chromium, or "".
func FindChromium() string {
	if path := os.Getenv("PENSTOCK_CHROMIUM"); path != "" {
		return path
	}
	for _, n := range browserPrograms {
		if path, err := exec.LookPath(n); err == nil {
			return path
		}
	}
	return ""
}

// OpenTab returns a browser tab for use with chromedp.Run. width and height are in pixels. If dark
// is true, the page is shown in a dark colour scheme. The browser has a separate profile. It stops
// when the test ends, or after two minutes.
func OpenTab(t testing.TB, width, height int64, dark bool) context.Context {
	t.Helper()
	path := FindChromium()
	if path == "" {
		const text = "no Chromium on this machine (looked for PENSTOCK_CHROMIUM, chromium, google-chrome): pages are not opened"
		if os.Getenv("CI") != "" {
			t.Fatal(text)
		}
		t.Skip(text)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.WSURLReadTimeout(60*time.Second))
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(stop)
	ctx, stopBrowser := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(stopBrowser)
	tab, stopTab := chromedp.NewContext(ctx)
	t.Cleanup(stopTab)
	// runs before the profile folder is removed, and waits for the process to exit
	t.Cleanup(func() { _ = chromedp.Cancel(tab) })
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	if err := chromedp.Do(tab, chromedp.EmulateViewport(width, height)); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	_, err := chromedp.Call(tab, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	if err != nil {
		t.Fatalf("emulate a %s system: %v", scheme, err)
	}
	return tab
}
