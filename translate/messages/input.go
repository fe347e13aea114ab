package messages

import (
	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

// The members of blocks that the edge reads.
const (
	fieldTypeIndex = iota
	fieldTextIndex
	fieldSourceIndex
	fieldIDIndex
	fieldNameIndex
	fieldInputIndex
	fieldToolUseIDIndex
	fieldContentIndex
	fieldIsErrorIndex
	fieldTitleIndex
	fieldContextIndex
	fieldToolNameIndex
	fieldThinkingIndex
	fieldSignatureIndex
	fieldDataIndex
	fieldCitationsIndex
	fieldCount
)

var blockMemberNames = jsonx.NewNameIndex("type", "text", "source", "id", "name", "input", "tool_use_id", "content", "is_error",
	"title", "context", "tool_name", "thinking", "signature", "data", "citations")

const (
	sourceTypeIndex = iota
	sourceMediaTypeIndex
	sourceDataIndex
	sourceURLIndex
	sourceContentIndex
	sourceMemberCount
)

var sourceMemberNames = jsonx.NewNameIndex("type", "media_type", "data", "url", "content")

type blockKind uint8

const (
	blockUnknown blockKind = iota
	blockText
	blockImage
	blockDocument
	blockSearchResult
	blockToolReference
	blockToolUse
	blockToolResult
	blockCompaction // a summary that replaces the conversation before it
	blockUpload     // a file stored by the dialect's vendor
	blockThinking
	blockRedactedThinking
	blockIgnored // written by the vendor's servers
)

var blockKinds = map[string]blockKind{
	"text":              blockText,
	"image":             blockImage,
	"document":          blockDocument,
	"search_result":     blockSearchResult,
	"tool_reference":    blockToolReference,
	"tool_use":          blockToolUse,
	"tool_result":       blockToolResult,
	"compaction":        blockCompaction,
	"container_upload":  blockUpload,
	"thinking":          blockThinking,
	"redacted_thinking": blockRedactedThinking,
}

type contentBlock struct {
	kind   blockKind
	fields [fieldCount]jsonx.Value
	source [sourceMemberCount]jsonx.Value // members of the source of an image or a document, set by readSource
	nested bool
}

func readBlock(v jsonx.Value) (b contentBlock, f *requestFault) {
	if f = chat.ReadElement("an object with a type", v, blockMemberNames, b.fields[:]); f == nil {
		f = chat.CheckRequiredString("type", b.fields[fieldTypeIndex])
	}
	if f != nil {
		return b, f
	}
	name, plain := b.fields[fieldTypeIndex].Text()
	if !plain {
		name = b.fields[fieldTypeIndex].AppendText(nil)
	}
	b.kind = blockKinds[string(name)]
	if b.kind == blockUnknown && new(dialects.DroppedParts).AddBlock(b.fields[fieldTypeIndex]) {
		b.kind = blockIgnored
	}
	return b, nil
}

// visit checks a block that is neither a tool call nor a result, and passes its contents to w.
func (b contentBlock) visit(w *contentWriter) *requestFault {
	switch b.kind {
	case blockText:
		return writeTextIfValid(w, chat.CheckRequiredString("text", b.fields[fieldTextIndex]), b.fields[fieldTextIndex])
	case blockImage:
		f := b.readImage()
		if f == nil {
			w.writeImage(&b)
		}
		return f
	case blockDocument:
		return b.visitDocument(w)
	case blockSearchResult:
		return b.visitSearchResult(w)
	case blockToolReference:
		return writeTextIfValid(w, requiredText("tool_name", b.fields[fieldToolNameIndex]), b.fields[fieldToolNameIndex])
	case blockCompaction:
		if !b.fields[fieldContentIndex].HasText() {
			w.omittedCount++ // the block of a failed compaction
		}
		return writeTextIfValid(w, chat.CheckOptionalString("content", b.fields[fieldContentIndex]), b.fields[fieldContentIndex])
	case blockIgnored:
		if w.dropped == nil {
			return chat.UnsupportedError("type", "must not be a block that only its vendor's servers make")
		}
		w.dropped.AddBlock(b.fields[fieldTypeIndex])
		w.omittedCount++
		return nil
	case blockThinking, blockRedactedThinking:
		return nil
	case blockUpload:
		return chat.UnsupportedError("type", "must not be container_upload; files are not kept here")
	case blockToolUse, blockToolResult:
		return chat.WrongValueError("type", "must not be a call or a result of a tool here")
	case blockUnknown:
	}
	return chat.WrongValueError("type", "is not a known kind of content block")
}

// writeTextIfValid returns f. If f is nil, it passes the text v to w.
func writeTextIfValid(w *contentWriter, f *requestFault, v jsonx.Value) *requestFault {
	if f == nil && v.IsString() {
		w.writeText(v.RawContents())
	}
	return f
}

// visitContent visits the content of a result or a document. The content may be a string, blocks,
// or absent.
func (b contentBlock) visitContent(v jsonx.Value, w *contentWriter) *requestFault {
	switch {
	case !chat.IsGiven(v):
		return nil
	case v.IsString():
		w.writeText(v.RawContents())
		return nil
	case !v.IsArray():
		return chat.WrongTypeError("content", "a string or an array of content blocks", v)
	case !v.HasRecordedChildren():
		return chat.WrongValueError("content", "is nested too deeply")
	}
	for it := v.Iter(); it.Next(); {
		part, f := readBlock(it.Value())
		if f == nil {
			part.nested = b.nested || b.kind == blockDocument
			if !part.nested {
				w.nestedIndex = it.Index()
			}
			f = part.visit(w)
		}
		if f != nil {
			return f.InElement("content", it.Index())
		}
	}
	return nil
}

func (b *contentBlock) readSource() *requestFault {
	v := b.fields[fieldSourceIndex]
	if !chat.IsGiven(v) {
		return chat.MissingError("source")
	}
	if f := chat.ReadObject("source", v, sourceMemberNames, b.source[:]); f != nil {
		return f
	}
	return chat.CheckRequiredString("type", b.source[sourceTypeIndex]).InObject("source")
}

// readImage reads the source of an image. The image is checked later, when the chat body is
// decoded.
func (b *contentBlock) readImage() *requestFault {
	f := b.readSource()
	if f != nil {
		return f
	}
	switch kind, mediaType := b.source[sourceTypeIndex], b.source[sourceMediaTypeIndex]; {
	case kind.EqualText("base64"):
		if f = chat.CheckRequiredString("media_type", mediaType); f == nil && !isImageType(mediaType) {
			f = chat.UnsupportedError("media_type", "must be image/jpeg, image/png or image/webp").MarkAboutImage()
		}
		if f == nil {
			f = requiredText("data", b.source[sourceDataIndex])
		}
	case kind.EqualText("url"):
		f = requiredText("url", b.source[sourceURLIndex])
	case kind.EqualText("file"):
		f = chat.UnsupportedError("type", "must be base64 or url; files are not kept here")
	default:
		f = chat.WrongValueError("type", "must be base64 or url")
	}
	return f.InObject("source")
}

func isImageType(v jsonx.Value) bool {
	return v.EqualText("image/jpeg") || v.EqualText("image/png") || v.EqualText("image/webp") || v.EqualText("image/jpg")
}

// visitDocument writes the text of a document, or a PDF. Package chat accepts PDFs only for models
// that take files.
func (b contentBlock) visitDocument(w *contentWriter) *requestFault {
	f := b.readSource()
	if f == nil {
		f = b.dropCitations(w)
	}
	if f == nil {
		f = b.writeLabel("title", fieldTitleIndex, w)
	}
	if f == nil {
		f = b.writeLabel("context", fieldContextIndex, w)
	}
	if f != nil {
		return f
	}
	switch kind := b.source[sourceTypeIndex]; {
	case kind.EqualText("text"):
		f = writeTextIfValid(w, chat.CheckRequiredString("data", b.source[sourceDataIndex]), b.source[sourceDataIndex])
	case kind.EqualText("content"):
		f = b.visitContent(b.source[sourceContentIndex], w)
	case kind.EqualText("base64") && b.source[sourceMediaTypeIndex].EqualText("application/pdf"):
		if f = requiredText("data", b.source[sourceDataIndex]); f == nil {
			w.writeImage(&b)
		}
	default:
		// When agents read "Could not process …", they remove the document from the conversation
		// and continue.
		f = chat.UnsupportedError("type", "must be text, content, or base64 with a PDF. Could not process PDF: other files are not read here")
	}
	return f.InObject("source")
}

// dropCitations records that the answer will not cite the document or the search result, although
// the client requests it.
func (b *contentBlock) dropCitations(w *contentWriter) *requestFault {
	if on, _ := b.fields[fieldCitationsIndex].Get("enabled").Bool(); on {
		if w.dropped == nil {
			return chat.UnsupportedError("citations", "has no effect here: leave it out")
		}
		w.dropped.AddMember("citations")
	}
	return nil
}

func (b contentBlock) visitSearchResult(w *contentWriter) *requestFault {
	if f := b.dropCitations(w); f != nil {
		return f
	}
	if f := b.writeLabel("title", fieldTitleIndex, w); f != nil {
		return f
	}
	if f := b.writeLabel("source", fieldSourceIndex, w); f != nil {
		return f
	}
	return b.visitContent(b.fields[fieldContentIndex], w)
}

func (b *contentBlock) writeLabel(name string, field int, w *contentWriter) *requestFault {
	return writeTextIfValid(w, chat.CheckOptionalString(name, b.fields[field]), b.fields[field])
}
