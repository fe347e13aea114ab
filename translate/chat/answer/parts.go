package answer

import "penstock/translate/jsonx"

// eachPart calls take for each text in a content that is a list of parts. Mistral uses such lists
// to send text together with a thought or a reference. take's argument text is the contents of a
// JSON string. Parts without text mean nothing to clients of other dialects. eachPart returns the
// first error from take.
func eachPart(content jsonx.Value, take func(text []byte, thought bool) error) error {
	for it := content.Iter(); it.Next(); {
		part := it.Value()
		text, thought := part.Get("text"), false
		if part.Get("type").EqualText("thinking") {
			text, thought = part.Get("thinking"), true
		}
		if text.IsArray() { // nested parts, deeper than recordDepth
			var doc jsonx.Doc
			if doc.Parse(text.Raw(), jsonx.Options{Record: 2}) != nil {
				continue
			}
			for inner := doc.Root().Iter(); inner.Next(); {
				if t := inner.Value().Get("text"); t.HasText() {
					if err := take(t.Inside(), thought); err != nil {
						return err
					}
				}
			}
			continue
		}
		if text.HasText() {
			if err := take(text.Inside(), thought); err != nil {
				return err
			}
		}
	}
	return nil
}
