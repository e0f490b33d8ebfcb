# Return the text of a signed release file, or stop with an error.

library(jsonlite)
library(openssl)

decoded <- function(text) {                    # both alphabets of base64
  if (!is.character(text)) stop("not verified: this is not base64")
  text <- gsub("_", "/", gsub("-", "+", text, fixed = TRUE), fixed = TRUE)
  if (!grepl("^[A-Za-z0-9+/]*={0,2}$", text)) stop("not verified: this is not base64")
  base64_decode(text)
}

verified <- function(file, key) {              # text of the release
  bytes <- readBin(file, "raw", file.size(file))
  if (any(bytes %in% as.raw(c(0, 0x5c)))) stop("not verified: a zero byte or an escape")
  envelope <- parse_json(rawToChar(bytes))
  if (anyDuplicated(names(envelope))) stop("not verified: a name appears twice")
  type <- envelope[["payloadType"]]
  if (!identical(type, "application/vnd.dpcov.release+json")) stop("not verified: wrong type")
  payload <- decoded(envelope[["payload"]])
  head <- sprintf("DSSEv1 %d %s %d ", nchar(type, "bytes"), type, length(payload))
  signed <- c(charToRaw(head), payload)
  signatures <- lapply(envelope[["signatures"]], function(one) decoded(one[["sig"]]))
  public <- read_pubkey(key)
  valid <- function(signature) {
    isTRUE(tryCatch(ed25519_verify(signed, signature, public), error = function(e) FALSE))
  }
  if (!any(vapply(signatures, valid, NA))) stop("not verified: no signature of this key")
  text <- rawToChar(payload)
  Encoding(text) <- "UTF-8"
  text
}
