import java.io.BufferedOutputStream;
import java.io.PrintStream;
import java.nio.charset.Charset;

/**
 * Prints how this JVM's charsets decode and encode. Each line begins with its kind, columns are separated by tabs, and
 * characters are UTF-16 in hex.
 *
 *   C  name, aliases, the bytes written for a character that the charset does not have
 *   1  the text of each of the 256 bytes
 *   2  a lead byte, and the text of it with each second byte (multi-byte charsets, lead bytes from 80)
 *   3  a second byte, and the text of 8F, it and each third byte (EUC-JP)
 *   4  the text of each four-byte sequence from 81308130 on (GB18030)
 *   E  the bytes of each character of the BMP, without surrogates
 */
public class Dump {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, "US-ASCII");
        for (Charset charset : Charset.availableCharsets().values()) {
            boolean encodes = charset.canEncode();
            String replacement = encodes ? hex(charset.newEncoder().replacement()) : "";
            out.println("C\t" + charset.name() + "\t" + String.join(" ", charset.aliases()) + "\t" + replacement);
            if (!encodes) {
                continue;
            }
            out.println("1\t" + row(charset, new byte[0]));
            if (charset.newEncoder().maxBytesPerChar() > 1) {
                for (int lead = 0x80; lead < 256; lead++) {
                    out.println("2\t" + lead + "\t" + row(charset, new byte[] {(byte) lead}));
                }
            }
            if (charset.name().equals("EUC-JP")) {
                for (int lead = 0x80; lead < 256; lead++) {
                    out.println("3\t" + lead + "\t" + row(charset, new byte[] {(byte) 0x8f, (byte) lead}));
                }
            }
            if (charset.name().equals("GB18030")) {
                StringBuilder texts = new StringBuilder("4\t");
                for (int i = 0; i < 4 * 12600; i++) {
                    byte[] bytes = {
                        (byte) (0x81 + i / 12600), (byte) (0x30 + i / 1260 % 10), (byte) (0x81 + i / 10 % 126), (byte) (0x30 + i % 10)
                    };
                    texts.append(hex(new String(bytes, charset))).append(' ');
                }
                out.println(texts);
            }
            StringBuilder encoded = new StringBuilder("E\t");
            for (int i = 0; i < 0x10000; i++) {
                if (i < 0xd800 || i >= 0xe000) {
                    encoded.append(hex(String.valueOf((char) i).getBytes(charset))).append(' ');
                }
            }
            out.println(encoded);
        }
        out.close();
    }

    private static String row(Charset charset, byte[] begin) {
        StringBuilder texts = new StringBuilder();
        byte[] bytes = java.util.Arrays.copyOf(begin, begin.length + 1);
        for (int i = 0; i < 256; i++) {
            bytes[begin.length] = (byte) i;
            texts.append(hex(new String(bytes, charset))).append(' ');
        }
        return texts.toString();
    }

    private static String hex(String text) {
        StringBuilder digits = new StringBuilder();
        for (char c : text.toCharArray()) {
            digits.append(String.format("%04x", (int) c));
        }
        return digits.length() == 0 ? "-" : digits.toString();
    }

    private static String hex(byte[] bytes) {
        StringBuilder digits = new StringBuilder();
        for (byte b : bytes) {
            digits.append(String.format("%02x", b));
        }
        return digits.length() == 0 ? "-" : digits.toString();
    }
}
