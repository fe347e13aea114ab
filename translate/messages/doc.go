// Package messages translates between the Messages dialect, which Claude Code and the Anthropic
// SDKs speak, and the chat dialect of engines.
//
// # Requests
//
//	system, role system     one leading system message (in_place: they keep their position)
//	text blocks             a string, joined by line ends; with images, an array of parts in order
//	image                   image_url with a data URL or the URL
//	tool_use                tool_calls, the input as JSON in a string
//	tool_result             tool messages first; their images in the following user message
//	document, search_result their text; PDFs and files are rejected, because no engine reads them
//	thinking                reasoning_content of its message; sealed thinking is opened
//	server tools            omitted from the history
//	compaction              its summary becomes text of its turn
//	context_management      clear_thinking edits are applied; the answer lists the applied edits
//	tools                   functions; server tools are dropped, or rejected without functions
//	bash, text_editor,      functions with the schema that the vendor documents for the version;
//	memory                  computer use is dropped like server tools
//	tool_choice             auto, none, required, a function; parallel use as parallel_tool_calls
//	stop_sequences          stop
//	thinking disabled       reasoning_effort none; unknown types are adaptive, displays summarized;
//	                        budget_tokens has no counterpart and is named in Dropped
//	output_config           effort becomes reasoning_effort, format becomes response_format
//	a last assistant turn   stays last (see chat.EngineFormat.Prefill)
//
// All other members (metadata, cache_control, other edits, betas, mcp_servers, container) are
// accepted and ignored. RequestInfo.Dropped names the ignored members on which a client may rely.
// Only thread is rejected, because it asks the edge to store a conversation.
//
// # Answers
//
// The blocks of an answer are thinking (if the client requested it), text, and tool_use, in the
// engine's order. If the client wants thinking omitted or uses the beta that redacts thinking, the
// thinking is sealed (package seal). The client sends the sealed thinking back, so that the model
// receives it in the next turn. Only one block is open at a time. The arguments of an open tool
// call may continue, so the deltas of other blocks are held back until the tool call is complete.
// All other deltas are sent as they arrive.
//
// # Design
//
// The translation of a message depends only on that message: the translation does not merge
// consecutive messages with the same role, and adds nothing random. If system text is moved to the
// leading message, a system text in the middle of a conversation changes that message once.
// in_place is for templates that accept system text in the middle.
//
// The signature of visible thinking is a constant. The edge never checks this signature, because a
// client may send any text to a model anyway. Sealed thinking that cannot be opened is omitted from
// the history, whatever its origin.
//
// The edge never repairs malformed tool call arguments, because the tool would run with arguments
// that the model did not request. In a stream, clients receive the model's text unchanged. In a
// whole answer, they receive it as a JSON value, if necessary a string. Agents report malformed
// arguments to the model, which then corrects them.
//
// However, an answer fails if its arguments break off. Some clients convert partial arguments to
// an object, and a broken answer must not look complete. There are two exceptions. Empty
// arguments mean {}. A tool call truncated by the token limit ends as the dialect requires: with
// stop_reason max_tokens and, in a whole answer, an input of {}.
//
// A stop sequence is reported only if the client listed it, because engines also report stop
// strings from their own templates.
//
// Tool ids come from the engine. Clients match results by id throughout a conversation. The edge
// therefore replaces an id that is missing, that is only a number, or that two tool calls share.
package messages
