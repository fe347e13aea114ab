package e2e

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/jpeg"
	"image/png"
)

// picture is a data URL of a small picture.
func picture(format string) string {
	img := image.NewRGBA(image.Rect(0, 0, 16, 16))
	var b bytes.Buffer
	if format == "png" {
		_ = png.Encode(&b, img)
	} else {
		_ = jpeg.Encode(&b, img, nil)
	}
	return "data:image/" + format + ";base64," + base64.StdEncoding.EncodeToString(b.Bytes())
}

// visionBody is a chat request with one image.
func visionBody(url, more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"model":"sim","messages":[{"role":"user","content":[{"type":"text","text":"` + canary + `"},{"type":"image_url","image_url":{"url":"` + url + `"}}]}]` + more + `}`
}
