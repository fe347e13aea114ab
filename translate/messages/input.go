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
	fieldCount
)

var blockNames = jsonx.NewNameIndex("type", "text", "source", "id", "name", "input", "tool_use_id", "content", "is_error",
	"title", "context", "tool_name", "thinking", "signature", "data")

const (
	sourceType = iota
	sourceMediaType
	sourceData
	sourceURL
	sourceContent
	sourceMembers
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

type block struct {
	kind   blockKind
	fields [fieldCount]jsonx.Value
	source [sourceMembers]jsonx.Value // members of the source of an image or a document, set by readSource
	nested bool
}

func readBlock(v jsonx.Value) (b block, f *fault) {
	if f = chat.ReadElement("an object with a type", v, blockNames, b.fields[:]); f == nil {
		f = chat.RequiredString("type", b.fields[fieldType])
	}
	if f != nil {
		return b, f
	}
	name, plain := b.fields[fieldType].Text()
	if !plain {
		name = b.fields[fieldType].AppendText(nil)
	}
	b.kind = blockKinds[string(name)]
	if b.kind == blockUnknown && new(dialects.Dropped).AddBlock(b.fields[fieldType]) {
		b.kind = blockIgnored
	}
	return b, nil
}

// visit checks a block that is neither a tool call nor a result, and passes its contents to w.
func (b block) visit(w *contentWriter) *fault {
	switch b.kind {
	case blockText:
		return writeValidText(w, chat.RequiredString("text", b.fields[fieldText]), b.fields[fieldText])
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
		return writeValidText(w, chat.OptionalString("content", b.fields[fieldContent]), b.fields[fieldContent])
	case blockIgnored:
		if w.dropped == nil {
			return chat.Unsupported("type", "must not be a block that only its vendor's servers make")
		}
		w.dropped.AddBlock(b.fields[fieldType])
		w.omittedCount++
		return nil
	case blockThinking, blockRedactedThinking:
		return nil
	case blockUpload:
		return chat.Unsupported("type", "must not be container_upload; files are not kept here")
	case blockToolUse, blockToolResult:
		return chat.WrongValue("type", "must not be a call or a result of a tool here")
	case blockUnknown:
	}
	return chat.WrongValue("type", "is not a known kind of content block")
}

// writeValidText returns f. If f is nil, it passes the text v to w.
func writeValidText(w *contentWriter, f *fault, v jsonx.Value) *fault {
	if f == nil && v.IsString() {
		w.writeText(v.RawContents())
	}
	return f
}

// visitContent visits the content of a result or a document. The content may be a string, blocks,
// or absent.
func (b block) visitContent(v jsonx.Value, w *contentWriter) *fault {
	switch {
	case !chat.IsGiven(v):
		return nil
	case v.IsString():
		w.writeText(v.RawContents())
		return nil
	case !v.IsArray():
		return chat.WrongType("content", "a string or an array of content blocks", v)
	case !v.HasRecordedChildren():
		return chat.WrongValue("content", "is nested too deeply")
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

func (b *block) readSource() *fault {
	v := b.fields[fieldSource]
	if !chat.IsGiven(v) {
		return chat.Missing("source")
	}
	if f := chat.ReadObject("source", v, sourceNames, b.source[:]); f != nil {
		return f
	}
	return chat.RequiredString("type", b.source[sourceType]).InObject("source")
}

// readImage reads the source of an image. The image is checked later, when the chat body is
// decoded.
func (b *block) readImage() *fault {
	f := b.readSource()
	if f != nil {
		return f
	}
	switch kind, mediaType := b.source[sourceType], b.source[sourceMediaType]; {
	case kind.EqualText("base64"):
		if f = chat.RequiredString("media_type", mediaType); f == nil && !isImageType(mediaType) {
			f = chat.Unsupported("media_type", "must be image/jpeg, image/png or image/webp").MarkAboutImage()
		}
		if f == nil {
			f = requiredText("data", b.source[sourceData])
		}
	case kind.EqualText("url"):
		f = requiredText("url", b.source[sourceURL])
	case kind.EqualText("file"):
		f = chat.Unsupported("type", "must be base64 or url; files are not kept here")
	default:
		f = chat.WrongValue("type", "must be base64 or url")
	}
	return f.InObject("source")
}

func isImageType(v jsonx.Value) bool {
	return v.EqualText("image/jpeg") || v.EqualText("image/png") || v.EqualText("image/webp") || v.EqualText("image/jpg")
}

// visitDocument writes the text of a document. Engines cannot read PDFs.
func (b block) visitDocument(w *contentWriter) *fault {
	f := b.readSource()
	if f == nil {
		f = b.label("title", fieldTitle, w)
	}
	if f == nil {
		f = b.label("context", fieldContext, w)
	}
	if f != nil {
		return f
	}
	switch kind := b.source[sourceType]; {
	case kind.EqualText("text"):
		f = writeValidText(w, chat.RequiredString("data", b.source[sourceData]), b.source[sourceData])
	case kind.EqualText("content"):
		f = b.visitContent(b.source[sourceContent], w)
	default:
		// When agents read "Could not process …", they remove the document from the conversation
		// and continue.
		f = chat.Unsupported("type", "must be text or content. Could not process PDF: PDFs and files are not read here")
	}
	return f.InObject("source")
}

func (b block) visitSearchResult(w *contentWriter) *fault {
	if f := b.label("title", fieldTitle, w); f != nil {
		return f
	}
	if f := b.label("source", fieldSource, w); f != nil {
		return f
	}
	return b.visitContent(b.fields[fieldContent], w)
}

func (b *block) label(name string, field int, w *contentWriter) *fault {
	return writeValidText(w, chat.OptionalString(name, b.fields[field]), b.fields[field])
}
