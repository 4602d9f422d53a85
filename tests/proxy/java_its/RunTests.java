import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/** Runs the tests of the classes that are named, one line each: passed, or failed and why. */
public class RunTests {
    public static void main(String[] names) throws Exception {
        for (String name : names) {
            JUnitCore core = new JUnitCore();
            core.addListener(new RunListener() {
                boolean isFailed;
                long begunMs;

                @Override
                public void testStarted(Description test) {
                    isFailed = false;
                    begunMs = System.currentTimeMillis();
                }

                @Override
                public void testFailure(Failure failure) {
                    isFailed = true;
                    Throwable error = failure.getException();
                    String at = "";
                    for (StackTraceElement frame : error.getStackTrace()) {
                        if (frame.getClassName().endsWith("IT")) {
                            at = " at line " + frame.getLineNumber();
                            break;
                        }
                    }
                    tell("failed", failure.getDescription(), (error + at).replaceAll("\\s+", " "));
                }

                @Override
                public void testFinished(Description test) {
                    if (!isFailed) {
                        tell("passed", test, (System.currentTimeMillis() - begunMs) + " ms");
                    }
                }
            });
            core.run(Class.forName(name));
        }
        System.exit(0);
    }

    static void tell(String what, Description test, String why) {
        System.out.println(what + "\t" + test.getClassName() + "\t" + test.getMethodName() + "\t" + why);
        System.out.flush();
    }
}
