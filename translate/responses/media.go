package responses

import (
	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

// medium is a type of part that contains an image, audio or a file.
type medium struct {
	partType string
	member   int // index of the part's member that contains the medium
	name     string
}

// Package chat accepts audio and files only for models that take them.
var media = [...]medium{
	{"input_image", partImageURLIndex, "image_url"},
	{"input_audio", partInputAudioIndex, "input_audio"},
	{"input_file", partFileDataIndex, "file_data"},
}

func findMedium(partType jsonx.Value) *medium {
	for i := range media {
		if partType.EqualText(media[i].partType) {
			return &media[i]
		}
	}
	return nil
}

func isMedium(p *[partMemberCount]jsonx.Value) bool { return findMedium(p[partTypeIndex]) != nil }

func hasMedium(v jsonx.Value) bool {
	for it := v.Iter(); it.Next(); {
		if v.IsArray() && findMedium(it.Value().Get("type")) != nil {
			return true
		}
	}
	return false
}

// checkMedium checks a part that contains no text. Package chat checks the medium itself.
func (i *inputItem) checkMedium(p *[partMemberCount]jsonx.Value) *requestFault {
	m := findMedium(p[partTypeIndex])
	switch {
	case m == nil:
		return chat.UnsupportedError("type", "A part must be input_text, input_image, output_text or refusal, "+
			"or input_audio or input_file for models that take them")
	case i.kind != itemUser && i.kind != itemOutput:
		return chat.WrongValueError("type", "must not be "+m.partType+" here: media belong in user messages and outputs")
	case m.member == partInputAudioIndex:
		if !chat.IsGiven(p[partInputAudioIndex]) {
			return chat.MissingError("input_audio")
		}
		return chat.CheckOptionalObject("input_audio", p[partInputAudioIndex])
	case m.member == partFileDataIndex:
		return checkFile(p)
	case !chat.IsGiven(p[partImageURLIndex]) && chat.IsGiven(p[partFileIDIndex]):
		return chat.UnsupportedError("file_id",
			"No files are stored here: send the image in image_url, as an https URL or a data URL")
	}
	return chat.FirstInvalidMember(chat.CheckRequiredString("image_url", p[partImageURLIndex]), chat.CheckOptionalString("detail", p[partDetailIndex]))
}

func checkFile(p *[partMemberCount]jsonx.Value) *requestFault {
	switch {
	case chat.IsGiven(p[partFileIDIndex]):
		return chat.UnsupportedError("file_id", "No files are stored here: send the file in file_data")
	case chat.IsGiven(p[partFileURLIndex]):
		return chat.UnsupportedError("file_url", "No files are fetched here: send the file in file_data")
	}
	return chat.FirstInvalidMember(chat.CheckRequiredString("file_data", p[partFileDataIndex]), chat.CheckOptionalString("filename", p[partFilenameIndex]))
}

type mediaPart struct {
	part     [partMemberCount]jsonx.Value
	position dialects.ImagePosition
}

func newMediaPart(p *[partMemberCount]jsonx.Value, item int, list string, part int) mediaPart {
	return mediaPart{*p, dialects.ImagePosition{
		List: "input", Parts: list, Item: item, At: part, Nested: -1, Member: findMedium(p[partTypeIndex]).name,
	}}
}

func (c *conversationWriter) writeMedium(m *mediaPart, n int) {
	m.position.Message, m.position.Part = c.w.Messages-1, n
	*c.images = append(*c.images, m.position)
	c.w.WriteCommaUnlessFirst(n)
	switch findMedium(m.part[partTypeIndex]).member {
	case partInputAudioIndex:
		c.w.WriteRaw(`{"type":"input_audio","input_audio":`, m.part[partInputAudioIndex])
		c.w.WriteString(`}`)
		return
	case partFileDataIndex:
		c.w.WriteRaw(`{"type":"file","file":{"file_data":`, m.part[partFileDataIndex])
		c.w.WriteMember(`,"filename":`, m.part[partFilenameIndex])
	default:
		c.w.WriteRaw(`{"type":"image_url","image_url":{"url":`, m.part[partImageURLIndex])
		c.w.WriteMember(`,"detail":`, m.part[partDetailIndex])
	}
	c.w.WriteString(`}}`)
}
