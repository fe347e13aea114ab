package messages

import (
	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

// The members of blocks that the edge reads.
const (
	fieldType = iota
	fieldText
	fieldSource
	fieldID
	fieldName
	fieldInput
	fieldToolUseID
	fieldContent
	fieldIsError
	fieldTitle
	fieldContext
	fieldToolName
	fieldThinking
	fieldSignature
	fieldData
	fieldCitations
	fieldCount
)

var blockNames = jsonx.NewNameIndex("type", "text", "source", "id", "name", "input", "tool_use_id", "content", "is_error",
	"title", "context", "tool_name", "thinking", "signature", "data", "citations")

const (
	sourceType = iota
	sourceMediaType
	sourceData
	sourceURL
	sourceContent
	sourceMemberCount
)

var sourceNames = jsonx.NewNameIndex("type", "media_type", "data", "url", "content")

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
	if f = chat.ReadElement("an object with a type", v, blockNames, b.fields[:]); f == nil {
		f = chat.CheckRequiredString("type", b.fields[fieldType])
	}
	if f != nil {
		return b, f
	}
	name, plain := b.fields[fieldType].Text()
	if !plain {
		name = b.fields[fieldType].AppendText(nil)
	}
	b.kind = blockKinds[string(name)]
	if b.kind == blockUnknown && new(dialects.DroppedParts).AddBlock(b.fields[fieldType]) {
		b.kind = blockIgnored
	}
	return b, nil
}

// visit checks a block that is neither a tool call nor a result, and passes its contents to w.
func (b contentBlock) visit(w *contentWriter) *requestFault {
	switch b.kind {
	case blockText:
		return writeValidText(w, chat.CheckRequiredString("text", b.fields[fieldText]), b.fields[fieldText])
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
		return writeValidText(w, requiredText("tool_name", b.fields[fieldToolName]), b.fields[fieldToolName])
	case blockCompaction:
		if !b.fields[fieldContent].HasText() {
			w.omittedCount++ // the block of a failed compaction
		}
		return writeValidText(w, chat.CheckOptionalString("content", b.fields[fieldContent]), b.fields[fieldContent])
	case blockIgnored:
		if w.dropped == nil {
			return chat.UnsupportedError("type", "must not be a block that only its vendor's servers make")
		}
		w.dropped.AddBlock(b.fields[fieldType])
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

// writeValidText returns f. If f is nil, it passes the text v to w.
func writeValidText(w *contentWriter, f *requestFault, v jsonx.Value) *requestFault {
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
	v := b.fields[fieldSource]
	if !chat.IsGiven(v) {
		return chat.MissingError("source")
	}
	if f := chat.ReadObject("source", v, sourceNames, b.source[:]); f != nil {
		return f
	}
	return chat.CheckRequiredString("type", b.source[sourceType]).InObject("source")
}

// readImage reads the source of an image. The image is checked later, when the chat body is
// decoded.
func (b *contentBlock) readImage() *requestFault {
	f := b.readSource()
	if f != nil {
		return f
	}
	switch kind, mediaType := b.source[sourceType], b.source[sourceMediaType]; {
	case kind.EqualText("base64"):
		if f = chat.CheckRequiredString("media_type", mediaType); f == nil && !isImageType(mediaType) {
			f = chat.UnsupportedError("media_type", "must be image/jpeg, image/png or image/webp").MarkAboutImage()
		}
		if f == nil {
			f = requiredText("data", b.source[sourceData])
		}
	case kind.EqualText("url"):
		f = requiredText("url", b.source[sourceURL])
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
		f = b.writeLabel("title", fieldTitle, w)
	}
	if f == nil {
		f = b.writeLabel("context", fieldContext, w)
	}
	if f != nil {
		return f
	}
	switch kind := b.source[sourceType]; {
	case kind.EqualText("text"):
		f = writeValidText(w, chat.CheckRequiredString("data", b.source[sourceData]), b.source[sourceData])
	case kind.EqualText("content"):
		f = b.visitContent(b.source[sourceContent], w)
	case kind.EqualText("base64") && b.source[sourceMediaType].EqualText("application/pdf"):
		if f = requiredText("data", b.source[sourceData]); f == nil {
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
	if on, _ := b.fields[fieldCitations].Get("enabled").Bool(); on {
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
	if f := b.writeLabel("title", fieldTitle, w); f != nil {
		return f
	}
	if f := b.writeLabel("source", fieldSource, w); f != nil {
		return f
	}
	return b.visitContent(b.fields[fieldContent], w)
}

func (b *contentBlock) writeLabel(name string, field int, w *contentWriter) *requestFault {
	return writeValidText(w, chat.CheckOptionalString(name, b.fields[field]), b.fields[field])
}
