package rig

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/jpeg"
	"image/png"
)

// PictureDataURL returns a data URL of a small picture in the format "png" or "jpeg".
func PictureDataURL(format string) string {
	img := image.NewRGBA(image.Rect(0, 0, 16, 16))
	var b bytes.Buffer
	if format == "png" {
		_ = png.Encode(&b, img)
	} else {
		_ = jpeg.Encode(&b, img, nil)
	}
	return "data:image/" + format + ";base64," + base64.StdEncoding.EncodeToString(b.Bytes())
}

// VisionBody returns a chat request for the model "sim" with one image and the members in more.
func VisionBody(url, more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"model":"sim","messages":[{"role":"user","content":[{"type":"text","text":"` + Canary + `"},{"type":"image_url","image_url":{"url":"` + url + `"}}]}]` + more + `}`
}
