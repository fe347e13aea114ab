package answer

import "penstock/translate/jsonx"

// visitTextParts calls take for each text in a content that is a list of parts, as sent by Mistral.
// text is the contents of a JSON string. visitTextParts skips parts without text, because clients
// of other dialects cannot use them.
func visitTextParts(content jsonx.Value, take func(text []byte, thought bool) error) error {
	for it := content.Iter(); it.Next(); {
		part := it.Value()
		text, thought := part.Get("text"), false
		if part.Get("type").EqualText("thinking") {
			text, thought = part.Get("thinking"), true
		}
		if text.IsArray() { // nested parts are deeper than indexedDepth
			var doc jsonx.Doc
			if doc.Parse(text.Raw(), jsonx.Options{Record: 2}) != nil {
				continue
			}
			for inner := doc.Root().Iter(); inner.Next(); {
				if t := inner.Value().Get("text"); t.HasText() {
					if err := take(t.RawContents(), thought); err != nil {
						return err
					}
				}
			}
			continue
		}
		if text.HasText() {
			if err := take(text.RawContents(), thought); err != nil {
				return err
			}
		}
	}
	return nil
}
