// Package responses translates between the Responses dialect, which Codex and the newer SDKs speak,
// and the chat dialect of engines.
//
// # Requests
//
//	input string            a user message
//	instructions, system,   one leading system message, in this order, joined by blank lines
//	developer               (in place: those at the start of the conversation; others stay in place)
//	text parts              a string, joined by line ends; with images, an array of parts
//	input_image             image_url; detail original becomes high
//	function_call           tool_calls of one assistant message, with the message before it;
//	                        arguments that are not a JSON object are put into one
//	custom_tool_call        the same, with {"input":"…"} as arguments
//	function_call_output    a tool message; its images in a user message after the turn's outputs
//	compaction              a user message with the summary sealed in it
//	compaction_trigger      at the end: a user message that requests a summary; no tool is called
//	reasoning               reasoning_content of the next message; sealed reasoning is opened, or
//	                        omitted and named in Dropped; a summary is dropped
//	tools                   nested; hosted tools are dropped, or rejected without functions
//	custom tools            functions with one string, input; the grammar is in the description
//	tools of a namespace    functions named namespace__tool; a name that is too long or taken, or
//	                        has more than letters, digits, _ and -, ends with a hash; the first
//	                        tool has the namespace's description
//	tool_choice             words, a function; allowed_tools becomes the tools and its mode
//	text.format             response_format, which is used if there is no text.format
//	reasoning.effort        reasoning_effort
//	max_output_tokens       max_completion_tokens
//	top_logprobs, include   top_logprobs and logprobs, only those of the text: reasoning is not
//	                        shown (message.output_text.logprobs)
//	include                 reasoning.encrypted_content: the answer has sealed reasoning
//
// Members that have the same name in chat (penalties, stop, seed, top_k, min_p, logit_bias,
// chat_template_kwargs) are passed on unchanged and checked as in chat. The contract does not list
// them for Responses, so a strict edge rejects them.
//
// Items that only another provider runs or reads (web_search_call, mcp_call, …) are omitted, and so
// are the outputs of such tool calls. A strict edge rejects them. RequestInfo.Dropped names the
// omitted items.
//
// Nothing is stored between requests. The edge therefore rejects store, previous_response_id,
// conversation, prompt, background, generate: false, item_reference, and file ids.
//
// Members that engines accept in chat but that this dialect lacks (chat's token limits and
// logprobs, ignore_eos, and members that an operator allows) are passed on. All other elements of
// include, and truncation, user, stream_options, client_metadata and unknown members are accepted
// but have no effect. Only the edge reads service_tier and prompt_cache_key. The only service_tier
// that matters is flex. prompt_cache_key is a hint for finding the engine that has cached the
// prompt. A strict edge rejects all these members.
//
// # Answers
//
// The response object always has all its members. The edge writes the members that it repeats from
// the request when it translates the request, so that it can release the body. Text and tool calls
// become output items in the engine's order. Reasoning is never shown. A client that includes
// reasoning.encrypted_content receives the reasoning sealed (package seal) and sends it back.
// Sealed reasoning is in separate items, which reveal only that the model reasoned.
//
// A compaction is an answer whose text is a summary of the conversation. It is one item, sealed for
// the key and for any model. In a history, the item replaces the conversation, so the edge rejects
// an item that it cannot open. A truncated summary, or an answer that is not a summary, counts as a
// bad answer.
//
// Only one item of a stream is open at a time. A delta is sent as it arrives, but deltas of other
// items are held back until the arguments of an open tool call are complete. The protocol allows
// items to overlap, because events have indexes. However, many clients ignore the indexes, and
// engines rarely interleave items.
//
// A text that the engine truncated is an incomplete item and makes the response incomplete. A tool
// call that was truncated before its name is omitted. If a tool call has no arguments, they become
// "{}", because clients parse arguments as JSON. Arguments that are not JSON are passed on unchanged.
//
// Clients watch for missing events: Codex ends a turn after five minutes without an event, even
// if comments arrive. A keep-alive is therefore an event without new content
// (Stream.AppendKeepalive). It was tested with Codex 0.171, openai-node 6.45 and 7.59, the AI SDK
// 3.0 and the Agents SDK 0.20. An event with another name breaks openai-node 6.45 and older SDKs
// for Java and PHP.
//
// # Design
//
// The translation of an item depends only on this item and earlier items. A property test checks
// this. The only exception is new system text that is moved to the first message. The translation
// looks ahead in two cases, both within one turn. An assistant message between a tool call and its
// output is merged into the message that contains the tool call. Images in outputs are moved after
// the last output.
//
// A custom tool's input is sent as the arguments arrive. The input is the string in the arguments,
// with one level of escapes instead of two. Some models write the input in other members, or in a
// code fence, which a tool with a grammar does not accept. Arguments that do not start as expected
// are held back until they end.
//
// When the engine calls a tool by a joined name, the edge looks up the name in a list that it built
// from the request. The client receives the name and the namespace separately, in the form in which
// it must send them back.
//
// Ids of items consist of the response's id and the item's index. An id is the same in every event
// and in the last response.
package responses
